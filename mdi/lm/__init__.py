"""Back-off n-gram models: words, rows, text and counts in, probabilities out; reading, writing, mixing, pruning,
checking."""
