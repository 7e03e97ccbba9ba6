#!/usr/bin/env bash
# A decoding graph of Kaldi's from a language model: arpa2fst and utils/mkgraph.sh.
# Usage: steps/make_graph_kaldi.sh [options] (--lang DIR --model DIR | --lookahead DIR) LM.arpa[.gz] GRAPH
# GRAPH gets HCLG.fst and words.txt; GRAPH/lang is the lang directory with the new G.fst. With --lookahead it gets Gr.fst
# beside links to the rest of that graph, which steps/nnet3/decode_lookahead.sh composes with it.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

lang=""  # lang directory whose G.fst is to be exchanged
model=""  # directory with final.mdl and tree
lookahead=""  # directory with HCLr.fst, disambig_tid.int and the words.txt of its labels, as utils/mkgraph_lookahead.sh
              # makes them from an ARPA file, or as they are in a Vosk model
mkgraph_opts=""  # such as "--self-loop-scale 1.0"
cmd=run.pl  # run.pl, queue.pl, slurm.pl with options
egs_dir=${egs_dir:-}  # the recipe (KALDI_ROOT/egs/wsj/s5)
parse_options "$@"
need_arguments 2
if [[ -z $lookahead && (-z $lang || -z $model) ]]; then wrong_usage; fi
lm=$(absolute "${arguments[0]}") graph=$(absolute "${arguments[1]}")
need_files "$lm"
log_to "$graph/log/make_graph.log"
if [[ -n $lookahead ]]; then
  lookahead=$(absolute "$lookahead")
  need_files "$lookahead/HCLr.fst" "$lookahead/disambig_tid.int" "$lookahead/words.txt"
  need_mdi
  for file in HCLr.fst disambig_tid.int words.txt phones phones.txt; do
    if [[ -e $lookahead/$file ]]; then ln -sfn "$lookahead/$file" "$graph/$file"; fi
  done
  mdi convert --words "$lookahead/words.txt" "$lm" "$graph/Gr.fst"
  exit
fi
lang=$(absolute "$lang") model=$(absolute "$model")
need_files "$lang/words.txt" "$lang/L_disambig.fst" "$model/final.mdl" "$model/tree"
need_kaldi arpa2fst fstinfo fsttablecompose fstdeterminizestar make-h-transducer
mkdir -p "$graph/log"
rm -rf "$graph/lang"
cp -rL "$lang" "$graph/lang"
rm -rf "$graph/lang/tmp" # graphs of the old G.fst
gzip -cdf -- "$lm" | arpa2fst --disambig-symbol='#0' --read-symbol-table="$lang/words.txt" - "$graph/lang/G.fst"
# arpa2fst writes an FST of one state and no arcs, and says nothing, where no word is known
[[ $(fstinfo "$graph/lang/G.fst" | awk '$3 == "arcs" {print $4}') -gt 0 ]] \
  || fail "$lm has no n-gram of words in $lang/words.txt; are both in the same letter case?"
read -ra options <<< "$mkgraph_opts"
# shellcheck disable=SC2086  # $cmd is a command with its options
in_egs $cmd "$graph/log/mkgraph.log" utils/mkgraph.sh ${options[@]+"${options[@]}"} "$graph/lang" "$model" "$graph"
need_files "$graph/HCLG.fst" "$graph/words.txt"
