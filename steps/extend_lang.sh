#!/usr/bin/env bash
# A lang directory with the words of a text that it lacks, said as --lexicon says or else by their letters: what was made
# of each word is in OUT.new_words.tsv, which may be edited and given as --lexicon.
# Usage: steps/extend_lang.sh [options] LANG TEXT OUT
# TEXT: of a Kaldi data directory, the name of an utterance first on each line.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"

lexicon=""  # of words that you know better: 'word phone ...' or 'word = known words'
min_count=1  # words seen less often are left out
parse_options "$@"
need_arguments 3
lang=${arguments[0]} text=${arguments[1]} out=${arguments[2]}
need_files "$lang/words.txt" "$text" ${lexicon:+"$lexicon"}
log_to "$(dirname "$out")/log/$(basename "$out").log"
need_mdi
words=$(mktemp)
trap 'rm -f "$words"' EXIT
awk -v least="$min_count" 'NR == FNR {known[$1]; next} {for (i = 2; i <= NF; i++) if (!($i in known)) count[$i]++}
  END {for (word in count) if (count[word] >= least) print word, count[word]}' "$lang/words.txt" "$text" |
  LC_ALL=C sort -k2,2nr -k1,1 > "$words"
mdi lang extend --words "$words" "$lang" ${lexicon:+"$lexicon"} "$out"
