#!/usr/bin/env bash
# Another language model for lattices: the old one's scores out, the new one's in.
# Usage: steps/rescore.sh [options] --words words.txt OLD.arpa[.gz] NEW.arpa[.gz] IN OUT
# IN and OUT are directories with lat.1.gz, lat.2.gz ... and num_jobs.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

words=""  # symbol table of the lattices
old_scores=cheapest  # how the old scores got in: by decoding (cheapest), or by rescoring (exact)
nj=1  # archives at a time
cmd=run.pl  # run.pl, or queue.pl, slurm.pl with options: one job per archive
egs_dir=${egs_dir:-}  # where utils/queue.pl and the like are: a recipe (KALDI_ROOT/egs/wsj/s5)
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

need_mdi
options=(--words "$words" --old-lm "$old" --new-lm "$new" --old-scores "$old_scores")
if [[ $cmd == run.pl ]]; then # what mdi does itself, with the models read once
  mdi rescore "${options[@]}" --nj "$nj" "$from" "$to"
else
  run_jobs "JOB=1:$jobs" "$to/log/rescore.JOB.log" \
    "$(command -v mdi)" rescore "${options[@]}" "$from/lat.JOB.gz" "$to/lat.JOB.gz" \
    || fail "a job failed; see $to/log/rescore.*.log"
fi
check_lattices "$to" "$jobs"
# last: whoever finds it may take the directory for finished
cp "$from/num_jobs" "$to/num_jobs"
