#!/usr/bin/env bash
# Perplexities of texts under a model, as JSON, one text per line.
# Usage: steps/compute_ppl.sh LM.arpa[.gz] TEXT[.gz]... OUT.jsonl
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"

parse_options "$@"
if [[ ${#arguments[@]} -lt 3 ]]; then wrong_usage; fi
out=${arguments[-1]}
unset 'arguments[-1]'
need_files "${arguments[@]}"
log_to "$(dirname "$out")/log/$(basename "$out" .jsonl).log"
need_mdi
temporary=$(dirname "$out")/.$(basename "$out").$$.tmp
trap 'rm -f "$temporary"' EXIT
mdi ppl --json true "${arguments[@]}" > "$temporary"
mv -- "$temporary" "$out"
