"""Works on Vosk model directories: adapts or replaces their language models, adds words, and decodes recordings.

mdi vosk adapt [options] MODEL_DIR TEXT[.gz]... OUT_DIR     a directory for vosk.Model(), adapted to the text
mdi vosk adapt --recordings DATA_DIR MODEL_DIR OUT_DIR      adapted to what it recognises itself
mdi vosk add-words [options] MODEL_DIR LIST OUT_DIR         the same with more words, without any text
mdi vosk replace-lm [options] MODEL_DIR LM OUT_DIR          the same with a model that is ready, in any form
mdi vosk replace-lm --delta A.delta MODEL_DIR OUT_DIR       or with its own, as mdi adapt --delta has adapted it
mdi vosk decode [options] MODEL_DIR DATA_DIR DIR            text, ctm and with --n-best also lattices of the data
"""

# One module each, mdi/commands/vosk_ACTION.py.
ACTIONS = {
    "adapt": "adapt the language models of a directory to text, or to recordings",
    "add-words": "add words to a directory, without any text",
    "replace-lm": "put a language model that is ready into a directory",
    "decode": "decode a Kaldi data directory with libvosk",
}
OLD_ACTIONS = {"put": "replace-lm"}
