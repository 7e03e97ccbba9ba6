"""Letters to phones: how words are said that no lexicon has.

mdi g2p train LEXICON MODEL               learn from any lexicon.txt or lexiconp.txt
mdi g2p apply [options] MODEL WORDS OUT   say the words of a list: a lexicon, or a table of what was found
"""

# One module each, mdi/commands/g2p_ACTION.py.
ACTIONS = {"train": "learn letters and phones from a lexicon", "apply": "say the words of a list"}
OLD_ACTIONS: dict[str, str] = {}
