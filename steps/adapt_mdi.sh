#!/usr/bin/env bash
# The rescoring models: a background adapted to in-domain text with one or several sets of thresholds, as one job.
# Usage: steps/adapt_mdi.sh [options] BACKGROUND.arpa[.gz] TEXT[.gz] DIR
# For every set DIR gets mdi.SET.arpa.gz, its certificate mdi.SET.arpa.gz.json and its constraints,
# constraints.SET.tsv.gz. The background is read once; the sets are solved from the fewest constraints to the most, each
# from the solution before.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"

min_counts=2-2-2,5-3-2,6-4-3  # thresholds by order, sets separated by commas
targets=ml  # marginals: relative frequencies (ml) or Kneser-Ney's (smoothed)
sigma2=none  # variance of a Gaussian prior on lambda; none: no prior
tolerance=1e-3  # L1 distance of targets and marginals to stop at
new_words=map  # what is compared is over one vocabulary; see mdi adapt --help
threads=2  # at most so many
cluster=""  # share the work between Dask workers, see mdi adapt --help
ppl=""  # texts separated by blanks: their perplexities go to DIR/ppl.tsv
parse_options "$@"
need_arguments 3
background=${arguments[0]} text=${arguments[1]} dir=${arguments[2]}
read -ra texts <<< "$ppl"
need_files "$background" "$text" ${texts[@]+"${texts[@]}"}
log_to "$dir/log/adapt_mdi.log"
need_mdi

options=(--min-counts "$min_counts" --targets "$targets" --tolerance "$tolerance" --threads "$threads"
  --sigma2 "${sigma2:-none}" --new-words "$new_words")
[[ -z $cluster ]] || options+=(--cluster "$cluster")
for file in ${texts[@]+"${texts[@]}"}; do options+=(--ppl "$file"); done
temporary=$dir/.ppl.tsv.$$.tmp
trap 'rm -f "$temporary"' EXIT
mdi adapt "${options[@]}" --constraints-out "$dir/constraints.{}.tsv.gz" "$background" "$text" "$dir/mdi.{}.arpa.gz" \
  > "$temporary"
if [[ -n $ppl ]]; then mv -- "$temporary" "$dir/ppl.tsv"; fi
