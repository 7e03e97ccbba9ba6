#!/usr/bin/env bash
# WER of lattices over LM weights and word-insertion penalties, or at the point that was best on a development set.
# Usage: steps/score.sh [options] --words words.txt DATA DIR
# Leaves DIR/scoring_kaldi/best_wer, DIR/scoring_kaldi/wer_details/ and DIR/wer_<LMWT>_<WIP> behind.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

words=""  # symbol table of the lattices
min_lmwt=7  # smallest LM weight
max_lmwt=17  # largest LM weight
word_ins_penalty=0.0,0.5,1.0  # penalties
tuned_on=""  # score only the point that was best in this scored directory
compare_with=""  # DIR[,DIR]: scored directories of other systems on the same data: are the differences significant?
ref_filter=""  # a recipe's local/wer_ref_filter
hyp_filter=""  # a recipe's local/wer_hyp_filter
cmd=run.pl  # run.pl, or queue.pl, slurm.pl with options
egs_dir=${egs_dir:-}  # where utils/queue.pl and the like are: a recipe (KALDI_ROOT/egs/wsj/s5)
parse_options "$@"
need_arguments 2
if [[ -z $words ]]; then wrong_usage; fi
data=$(absolute "${arguments[0]}") folder=$(absolute "${arguments[1]}") words=$(absolute "$words")
need_files "$data/text" "$words" "$folder/lat.1.gz"
log_to "$folder/log/score.log"
need_mdi
compared=()
IFS=, read -ra others <<< "$compare_with"
for other in ${others[@]+"${others[@]}"}; do compared+=(--compare-with "$(absolute "$other")"); done
scoring=(score --words "$words" --min-lmwt "$min_lmwt" --max-lmwt "$max_lmwt"
  --word-ins-penalty "$word_ins_penalty" ${tuned_on:+--tuned-on "$(absolute "$tuned_on")"}
  ${compared[@]+"${compared[@]}"} ${ref_filter:+--ref-filter "$(absolute "$ref_filter")"}
  ${hyp_filter:+--hyp-filter "$(absolute "$hyp_filter")"} "$data" "$folder")
if [[ $cmd == run.pl ]]; then
  mdi "${scoring[@]}"
else
  run_jobs "$folder/log/score.1.log" "$(command -v mdi)" "${scoring[@]}" || fail "see $folder/log/score.1.log"
  cat "$folder/scoring_kaldi/best_wer"
  [[ -z $compare_with ]] || cat "$folder/scoring_kaldi/wer_details/comparison"
fi
