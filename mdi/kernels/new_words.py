"""Back-off weights over a larger vocabulary. The layout is explained in mdi/lm/trie.py."""

from numba import njit

# Less than this of the lower distribution is left: every word has a row of its own.
NOTHING_LEFT = 1e-9
# A weight below this is none: what backs off with it cannot be predicted.
NO_WEIGHT = 1e-12


@njit(cache=True, nogil=True)
def make_room(level, lower_p, unk, kept, mass, new_p, new_bow):
    """One order of a model whose lower one, now `lower_p`, has new words of 1-gram mass `mass`. Rows keep p(w|h), but
    those that end in `unk` only the share `kept`; a weight gives what is left to the words without a row:

        left(h) = bow(h) (1 - sum p(w|h')) + (1 - kept) p(unk|h),    bow(h) = left(h) / (1 - sum of the new p(w|h'))

    with sums over the rows of h. Where nothing is left, all rows are scaled down: no word is new and impossible.
    """
    begin, word, suffix = level.trie.begin, level.trie.word, level.trie.suffix
    p, bow, old_lower = level.p, level.bow, level.lower_p
    for h in range(bow.shape[0]):
        seen = 0.0
        covered = 0.0
        now_covered = 0.0
        for r in range(begin[h], begin[h + 1]):
            covered += old_lower[suffix[r]]
            now_covered += lower_p[suffix[r]]
            new_p[r] = p[r] * kept if word[r] == unk else p[r]
            seen += new_p[r]
        free, now_free = 1.0 - covered, 1.0 - now_covered
        if now_free <= 0.0:  # a history that ends in </s>, or rounding
            new_bow[h] = bow[h]
            continue
        left = bow[h] * free
        if kept < 1.0:
            for r in range(begin[h], begin[h + 1]):
                if word[r] == unk:
                    left += p[r] - new_p[r]
        least = now_free * (mass if free > NOTHING_LEFT else 1.0)
        if left <= NO_WEIGHT * now_free or free <= NOTHING_LEFT:
            left = max(least, 1.0 - seen)
            share = (1.0 - left) / seen if seen > 0.0 else 1.0
            for r in range(begin[h], begin[h + 1]):
                new_p[r] *= share
        new_bow[h] = left / now_free
