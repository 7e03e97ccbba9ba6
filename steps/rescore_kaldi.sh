#!/usr/bin/env bash
# Another language model for lattices, with Kaldi: lattice-lmrescore takes the old G.fst out, lattice-lmrescore-const-arpa
# puts the new model in. steps/rescore.sh gives the same best paths and costs.
# Usage: steps/rescore_kaldi.sh [options] --words words.txt OLD.arpa[.gz] NEW.arpa[.gz] IN OUT
# IN and OUT are directories with lat.1.gz, lat.2.gz ... and num_jobs. The old scores are those of decoding.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

words=""  # symbol table of the lattices
rescore_script=""  # of the recipe, steps/lmrescore_const_arpa.sh, instead of calling these two programs here
cmd=run.pl  # run.pl, queue.pl, slurm.pl with options; one job per archive
egs_dir=${egs_dir:-}  # the recipe (KALDI_ROOT/egs/wsj/s5)
parse_options "$@"
need_arguments 4
if [[ -z $words ]]; then wrong_usage; fi
old=$(absolute "${arguments[0]}") new=$(absolute "${arguments[1]}")
from=$(absolute "${arguments[2]}") to=$(absolute "${arguments[3]}")
words=$(absolute "$words")
need_files "$words" "$old" "$new" "$from/lat.1.gz" "$from/num_jobs"
log_to "$to/log/rescore.log"
jobs=$(whole_number "$from/num_jobs")
rm -f -- "$to"/lat.*.gz # of an earlier decoding into more jobs
need_kaldi arpa2fst arpa-to-const-arpa fstproject lattice-lmrescore lattice-lmrescore-const-arpa
label() { awk -v w="$1" '$1 == w {print $2}' "$words"; }
bos=$(label '<s>') eos=$(label '</s>') unk=$(label '<unk>')
unk=${unk:-$(label '<UNK>')}
[[ -n $bos && -n $eos ]] || fail "$words has no <s> or </s>; lattice-lmrescore-const-arpa needs both"
# as two lang directories, of which only this is read
mkdir -p "$to/old" "$to/new"
cp "$words" "$to/old/words.txt"
cp "$words" "$to/new/words.txt"
gzip -cdf -- "$old" \
  | arpa2fst --disambig-symbol='#0' --read-symbol-table="$words" - "$to/old/G.fst" 2> "$to/log/arpa2fst.log"
gzip -cdf -- "$new" | (cd "$egs_dir" && utils/map_arpa_lm.pl "$words") 2> "$to/log/map_arpa_lm.log" \
  | arpa-to-const-arpa --bos-symbol="$bos" --eos-symbol="$eos" --unk-symbol="${unk:--1}" - "$to/new/G.carpa" \
    2> "$to/log/arpa-to-const-arpa.log"
if [[ -n $rescore_script ]]; then
  need_files "$egs_dir/$rescore_script"
  # the data directory is for scoring alone
  in_egs "$rescore_script" --cmd "$cmd" --skip-scoring true "$to/old" "$to/new" - "$from" "$to" >&2 || {
    rm -f "$to/num_jobs" # written first; here it means that the directory is finished
    fail "$rescore_script failed; see $to/log"
  }
else
  # What lmrescore_const_arpa.sh does, with two faults of it mended: OpenFst 1.8 has another name for the option of
  # fstproject, and a program that fails within the pipe makes the job fail.
  fstproject --project_type=output "$to/old/G.fst" "$to/old/words.fst" 2> /dev/null \
    || fstproject --project_output=true "$to/old/G.fst" "$to/old/words.fst"
  # shellcheck disable=SC2086  # $cmd is a command with its options
  in_egs $cmd "JOB=1:$jobs" "$to/log/rescorelm.JOB.log" \
    set -o pipefail '&&' lattice-lmrescore --lm-scale=-1.0 "ark:gunzip -c $from/lat.JOB.gz|" \
    "$to/old/words.fst" ark:- '|' \
    lattice-lmrescore-const-arpa --lm-scale=1.0 ark:- "$to/new/G.carpa" "ark:|gzip -c > $to/lat.JOB.gz"
fi
for ((n = 1; n <= jobs; n++)); do
  if grep -E '^ERROR|failed for [1-9]|Empty lattice' "$to/log/rescorelm.$n.log" >&2; then
    rm -f "$to/num_jobs"
    fail "lattices were lost; see $to/log/rescorelm.$n.log"
  fi
done
check_lattices "$to" "$jobs"
rm -rf "$to/old" "$to/new" # as large as the models
# last: whoever finds it may take the directory for finished
cp "$from/num_jobs" "$to/num_jobs"
