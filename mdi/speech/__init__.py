"""Speech: Kaldi data folders, decoding, lattices, rescoring, word error rates."""
