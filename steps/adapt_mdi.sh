#!/usr/bin/env bash
# The rescoring models: a background adapted to in-domain text with one or several sets of thresholds, as one job.
set -euo pipefail
# shellcheck source=utils/step.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/step.sh"

usage() {
  cat << 'EOF'
Usage: steps/adapt_mdi.sh [options] BACKGROUND.arpa[.gz] TEXT[.gz] DIR
  --min-counts LIST           thresholds by order, sets separated by commas (2-2-2,5-3-2,6-4-3)
  --targets ml|smoothed       marginals: relative frequencies or Kneser-Ney's (ml)
  --sigma2 V                  variance of a Gaussian prior on lambda (none)
  --tolerance L1              distance of targets and marginals to stop at (1e-3)
  --threads N                 (2)
  --ppl TEXTS                 texts separated by blanks: their perplexities go to DIR/ppl.tsv
For every set DIR gets mdi.SET.arpa.gz, its certificate mdi.SET.arpa.gz.json and its constraints, constraints.SET.tsv.gz. The
background is read once; the sets are solved from the fewest constraints to the most, each from the solution before.
EOF
}

echo "$0 $*" >&2
min_counts=2-2-2,5-3-2,6-4-3 targets=ml sigma2="" tolerance=1e-3 threads=2 ppl=""
parse_options "min-counts targets sigma2 tolerance threads ppl" "$@"
if [[ ${#arguments[@]} -ne 3 ]]; then
  usage >&2
  exit 2
fi
background=${arguments[0]} text=${arguments[1]} dir=${arguments[2]}
read -ra texts <<< "$ppl"
need_files "$background" "$text" ${texts[@]+"${texts[@]}"}
mkdir -p "$dir"
need_mdi
options=(--min-counts "$min_counts" --targets "$targets" --tolerance "$tolerance" --threads "$threads")
[[ -z $sigma2 ]] || options+=(--sigma2 "$sigma2")
for file in ${texts[@]+"${texts[@]}"}; do options+=(--ppl "$file"); done
temporary=$dir/.ppl.tsv.$$
trap 'rm -f "$temporary"' EXIT
mdi adapt "${options[@]}" --constraints-out "$dir/constraints.{}.tsv.gz" "$background" "$text" "$dir/mdi.{}.arpa.gz" > "$temporary"
if [[ -n $ppl ]]; then mv -- "$temporary" "$dir/ppl.tsv"; fi
