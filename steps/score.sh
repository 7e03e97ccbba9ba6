#!/usr/bin/env bash
# WER of lattices over LM weights and word-insertion penalties, or at the point that was best on a development set.
set -euo pipefail
# shellcheck source=utils/step.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/step.sh"

usage() {
  cat << 'EOF'
Usage: steps/score.sh [options] --words words.txt DATA DIR
  --backend mdi|kaldi       kaldi: lattice-best-path, compute-wer and compute-wer-bootci (mdi)
  --words FILE              symbol table of the lattices
  --min-lmwt, --max-lmwt    range of LM weights (7, 17)
  --word-ins-penalty A,B,C  (0.0,0.5,1.0)
  --tuned-on DIR            score only the point that was best in this scored folder
  --compare-with DIR        scored folder of another system on the same data: is the difference significant?
  --ref-filter, --hyp-filter PROGRAM   mdi: a recipe's local/wer_ref_filter, local/wer_hyp_filter
  --cmd CMD                 kaldi: run.pl, queue.pl, slurm.pl with options (run.pl)
  --egs-dir DIR             kaldi: the recipe (KALDI_ROOT/egs/wsj/s5)
Both leave DIR/wer_<LMWT>_<WIP>, DIR/scoring_kaldi/best_wer and DIR/scoring_kaldi/wer_details/ behind.
EOF
}

echo "$0 $*" >&2
backend=mdi words="" min_lmwt=7 max_lmwt=17 word_ins_penalty=0.0,0.5,1.0 tuned_on="" compare_with="" ref_filter="" hyp_filter=""
cmd=run.pl egs_dir=${egs_dir:-}
parse_options "backend words min-lmwt max-lmwt word-ins-penalty tuned-on compare-with ref-filter hyp-filter cmd egs-dir" "$@"
if [[ ${#arguments[@]} -ne 2 || -z $words ]]; then
  usage >&2
  exit 2
fi
data=$(absolute "${arguments[0]}") folder=$(absolute "${arguments[1]}") words=$(absolute "$words")
need_files "$words" "$data/text" "$folder/lat.1.gz"

best() { cat "$1/scoring_kaldi/wer_details/lmwt" "$1/scoring_kaldi/wer_details/wip" 2> /dev/null || fail "$1 has not been scored"; }

case $backend in
  mdi)
    need_mdi
    mdi score --words "$words" --min-lmwt "$min_lmwt" --max-lmwt "$max_lmwt" --word-ins-penalty "$word_ins_penalty" \
      ${tuned_on:+--tuned-on "$tuned_on"} ${compare_with:+--compare-with "$compare_with"} \
      ${ref_filter:+--ref-filter "$ref_filter"} ${hyp_filter:+--hyp-filter "$hyp_filter"} "$data" "$folder"
    ;;
  kaldi)
    need_kaldi lattice-best-path lattice-scale lattice-add-penalty compute-wer compute-wer-bootci align-text
    if [[ -n $tuned_on ]]; then
      point=$(best "$(absolute "$tuned_on")")
      { read -r min_lmwt && read -r word_ins_penalty; } <<< "$point"
      max_lmwt=$min_lmwt
    fi
    # Kaldi's script looks for words.txt in a folder
    mkdir -p "$folder/scoring_kaldi/lang"
    cp "$words" "$folder/scoring_kaldi/lang/words.txt"
    in_egs steps/scoring/score_kaldi_wer.sh --cmd "$cmd" --min-lmwt "$min_lmwt" --max-lmwt "$max_lmwt" \
      --word-ins-penalty "$word_ins_penalty" "$data" "$folder/scoring_kaldi/lang" "$folder" >&2
    cat "$folder/scoring_kaldi/best_wer"
    if [[ -n $compare_with ]]; then
      texts=()
      for one in "$(absolute "$compare_with")" "$folder"; do
        point=$(best "$one")
        { read -r weight && read -r penalty; } <<< "$point"
        texts+=("ark:$one/scoring_kaldi/penalty_$penalty/$weight.txt")
      done
      compute-wer-bootci --mode=present "ark:$folder/scoring_kaldi/test_filt.txt" "${texts[@]}" \
        | tee "$folder/scoring_kaldi/wer_details/comparison"
    fi
    ;;
  *) fail "--backend $backend; expected mdi or kaldi" 2 ;;
esac
