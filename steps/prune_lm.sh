#!/usr/bin/env bash
# A small model from a large one: pruned to a number of n-grams that comes from another model, or from the words of its
# own.
# Usage: steps/prune_lm.sh [options] LM.arpa[.gz] OUT.arpa[.gz]
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"

like=""  # a model: as many n-grams as it has, unless that leaves no room for the words of LM
beside_words=70000  # otherwise so many n-grams beside its words
parse_options "$@"
need_arguments 2
lm=${arguments[0]} out=${arguments[1]}
need_files "$lm" ${like:+"$like"}
name=$(basename "$out" .gz)
log_to "$(dirname "$out")/log/${name%.arpa}.log"
need_mdi

# ngrams_of LM [ORDER]: their number, of all orders or of one. No pipe: gzip need not come to the end; where it fails,
# the header does not either.
ngrams_of() {
  awk -F= -v order="${2:-[0-9]+}" '
    /^\\1-grams/ {whole = 1; exit}
    $1 ~ "^ngram +" order " *$" {n += $2}
    END {if (!whole) exit 1; print n + 0}' <(gzip -cdf -- "$1") ||
    fail "$1: cannot be read up to its 1-grams; expected an ARPA model. Make it again"
}

words=$(ngrams_of "$lm" 1)
wanted=0
[[ -z $like ]] || wanted=$(ngrams_of "$like")
mdi prune --max-ngrams $((wanted > words ? wanted : words + beside_words)) "$lm" "$out"
