"""Finds pronunciations from spelling, for words that no lexicon has.

mdi g2p train LEXICON MODEL               learns from any lexicon.txt or lexiconp.txt
mdi g2p apply [options] MODEL WORDS OUT   finds pronunciations for a list of words
"""

# One module each, mdi/commands/g2p_ACTION.py.
ACTIONS = {"train": "learn letters and phones from a lexicon", "apply": "say the words of a list"}
