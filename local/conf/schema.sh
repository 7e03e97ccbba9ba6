# shellcheck shell=bash disable=SC2034
# What a file of local/conf may set beside the options of run.sh, with defaults. Each is an option, too: --model-dir DIR
# in place of model_dir=DIR.

# A Kaldi recipe (paths are relative to it, and a * must match one name):
recipe=""  # name of its directory
train_data=""  # data directory with the in-domain text
set_data=""  # data directories of the test sets, 'dev=data/dev eval=data/eval', the development set first
hires_data=""  # kaldi: those with features
lang=""  # language directory
recipe_lm=""  # the model that its lattices were made with
model_dir=""  # acoustic model
decode_dirs=""  # lattices of the test sets, in which MODEL stands for the acoustic model's directory
lookahead=""  # kaldi: directory with HCLr.fst, disambig_tid.int and words.txt, for decode_script=steps/nnet3/decode_lookahead.sh
mkgraph_opts=""  # kaldi: options of utils/mkgraph.sh
decode_script=steps/nnet3/decode.sh  # kaldi: its script
decode_opts=""  # kaldi: further options of that script
ivectors=""  # kaldi: directory of i-vectors, in which SET stands for the data directory
acwt=0.1  # kaldi: acoustic scale of the search
beam=12  # kaldi: search beam
score_script=""  # kaldi: of the recipe; '' for compute-wer (local/score.sh in ami, swbd and wsj)
rescore_script=""  # kaldi: of the recipe, steps/lmrescore_const_arpa.sh ('': its two programs, called with more checks)
lang_from=run.sh  # its script that makes the language directory,
data_from=run.sh  # that makes the data,
model_from=run.sh  # and that makes acoustic model and lattices

# Any corpus:
parts=""  # several corpora in one: their directories
demo=false  # the texts of the demo
recorded=""  # recorded speech: dialogue or prompts
prompts=""  # directory with Debian's packages asterisk-core-sounds-LANGUAGE and -g722 (downloaded with apt-get)
language=en  # of the prompts: en, fr or ru
normalise=auto  # auto: your texts in the words of the recogniser, where there is one; none: as they are
vocab_size=100000  # most words to take from the background text
order=3  # length of the longest n-grams
in_min_counts=1  # N-N-N: n-grams of the in-domain model seen so often, by order
smoothing=kn-interpolated  # of its models: kn-interpolated, kn or wb
first_ngrams=70000  # n-grams, beside its words, of the first-pass model that is pruned from the in-domain one
min_lmwt=7  # smallest LM weight that scoring tries on the development set
max_lmwt=17  # largest
word_ins_penalty=0.0,0.5,1.0  # word-insertion penalties that it tries
lattice_beam=6  # beam of the lattices
channel=""  # of recordings with several channels, counted from 1, where reco2file_and_channel does not say it
max_overshoot=0.5  # seconds: segments that end less than so much after their recording are cut there
new_words=map  # words of the training text that the recogniser lacks: map to <unk>, or add to it and to all models
lexicon=""  # how they are said, 'word phone ...' or 'word = known words' (by their letters)

# A back end (local/conf/backends):
decode_step=""  # script of steps/ that decodes a data directory; '' where lattices come with the data
rescore_step=rescore.sh  # that puts another language model into lattices
score_step=score.sh  # that scores lattices
words_step=""  # that scores what the decoder said, beside its lattices
decodes_large=false  # it decodes with models of any size: no small ones are made for it
