"""Works on Vosk model directories: adapts or replaces their language models, adds words, and decodes recordings.

mdi vosk adapt [options] MODEL_DIR TEXT[.gz]... OUT_DIR     makes a directory for vosk.Model(), adapted to the text
mdi vosk adapt --recordings DATA_DIR MODEL_DIR OUT_DIR      adapts to what the model recognises itself
mdi vosk add-words [options] MODEL_DIR LIST OUT_DIR         adds words, without any text
mdi vosk replace-lm [options] MODEL_DIR LM OUT_DIR          puts in another language model, of any format
mdi vosk replace-lm --delta A.delta MODEL_DIR OUT_DIR       or its own, adapted by a delta of mdi adapt
mdi vosk decode [options] MODEL_DIR DATA_DIR DIR            recognises recordings: text, ctm, lattices
"""

# One module each, mdi/commands/vosk_ACTION.py.
ACTIONS = {
    "adapt": "adapt the language models of a directory to text, or to recordings",
    "add-words": "add words to a directory, without any text",
    "replace-lm": "replace the language model of a directory",
    "decode": "decode a Kaldi data directory with libvosk",
}
