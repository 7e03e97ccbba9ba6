#!/usr/bin/env bash
# Another system's lattices under our roof, where their scores will lie too.
# Usage: steps/link_lattices.sh FROM TO
# FROM and TO are directories with lat.1.gz, lat.2.gz ... and num_jobs.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"

parse_options "$@"
need_arguments 2
from=$(absolute "${arguments[0]}") to=${arguments[1]}
need_files "$from/num_jobs"
log_to "$to/log/link_lattices.log"
jobs=$(whole_number "$from/num_jobs")
rm -f -- "$to"/lat.*.gz "$to/rescored" # of a decoding into more jobs, or of no decoding
for ((n = 1; n <= jobs; n++)); do ln -sf "$from/lat.$n.gz" "$to/lat.$n.gz"; done
cp "$from/num_jobs" "$to/num_jobs"
