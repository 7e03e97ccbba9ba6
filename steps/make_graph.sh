#!/usr/bin/env bash
# A decoding graph from a language model: G.fst and HCLG.fst.
# Usage: steps/make_graph.sh [options] LM.arpa[.gz] GRAPH
# GRAPH gets HCLG.fst and words.txt; with kaldi, GRAPH/lang is the lang folder with the new G.fst.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

backend=mdi  # mdi: the acoustic model of the pocketsphinx package; kaldi: arpa2fst and mkgraph.sh
lexicon=""  # mdi: pronunciations (CMU's dictionary)
words=""  # mdi: symbol table (the words that lexicon and model share)
lang=""  # kaldi: lang folder whose G.fst is to be exchanged
model=""  # kaldi: folder with final.mdl and tree
mkgraph_opts=""  # kaldi: such as "--self-loop-scale 1.0"
cmd=run.pl  # kaldi: run.pl, queue.pl, slurm.pl with options
egs_dir=${egs_dir:-}  # kaldi: the recipe (KALDI_ROOT/egs/wsj/s5)
parse_options "$@"
need_arguments 2
lm=$(absolute "${arguments[0]}") graph=$(absolute "${arguments[1]}")
need_files "$lm"
log_to "$graph/log/make_graph.log"

case $backend in
  mdi)
    need_mdi
    mdi graph ${lexicon:+--lexicon "$lexicon"} ${words:+--words "$words"} "$lm" "$graph"
    ;;
  kaldi)
    [[ -n $lang && -n $model ]] || fail "--backend kaldi needs --lang and --model" 2
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
    ;;
  *) fail "--backend $backend; expected mdi or kaldi" 2 ;;
esac
need_files "$graph/HCLG.fst" "$graph/words.txt"
