"""Works on Kaldi's lang directories.

mdi lang extend LANG LEXICON OUT     makes a lang directory with more words
"""

# One module each, mdi/commands/lang_ACTION.py.
ACTIONS = {"extend": "add words to a lang directory"}
