"""Language models as finite-state transducers, in the files that OpenFst and Kaldi read."""
