#!/usr/bin/env bash
# An ARPA model from text.
# Usage: steps/train_lm.sh [options] TEXT[.gz]... OUT.arpa[.gz]
# TEXT has one sentence per line. The model is the one of SRILM's ngram-count -kndiscount [-interpolate] or -wbdiscount,
# and of KenLM's lmplz, but for rounding.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"

order=3  # length of the longest n-grams
vocab=""  # one word per line; other words are <unk> (every word of the text)
smoothing=kn  # kn, kn-interpolated or wb
min_counts=1-1-2  # keep n-grams seen so often, by order; the last repeats
cluster=""  # share the work between Dask workers, see mdi train --help
memory=2G  # for counting
parse_options "$@"
if [[ ${#arguments[@]} -lt 2 ]]; then wrong_usage; fi
out=${arguments[-1]}
texts=("${arguments[@]:0:${#arguments[@]}-1}")
for file in "${texts[@]}" ${vocab:+"$vocab"}; do
  [[ -r $file && ! -d $file ]] || fail "$file: no such file, or it cannot be read"
done
[[ -d $(dirname "$out") ]] || fail "$out: its directory does not exist; make it first"
name=$(basename "$out" .gz)
log_to "$(dirname "$out")/log/${name%.arpa}.log"
need_mdi
mdi train --order "$order" --smoothing "$smoothing" --min-counts "$min_counts" --memory "$memory" \
  ${vocab:+--vocab "$vocab"} ${cluster:+--cluster "$cluster"} "${texts[@]}" "$out"
