#!/usr/bin/env bash
# WER of the words that libvosk has recognised, as they are, at its own LM weight.
# Usage: steps/score_vosk.sh [options] DATA DECODED DIR
# DECODED is a directory of steps/decode_vosk.sh. Leaves DIR/scoring_kaldi/best_wer and DIR/scoring_kaldi/wer_details/.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"

compare_with=""  # DIR[,DIR]: scored directories of other systems on the same data: are the differences significant?
parse_options "$@"
need_arguments 3
data=${arguments[0]} decoded=${arguments[1]} folder=${arguments[2]}
need_files "$data/text" "$decoded/text"
log_to "$folder/log/score.log"
need_mdi
compared=()
IFS=, read -ra others <<< "$compare_with"
for other in ${others[@]+"${others[@]}"}; do compared+=(--compare-with "$other"); done
mkdir -p "$folder"
cp -- "$decoded/text" "$folder/text"
mdi score --hyp text ${compared[@]+"${compared[@]}"} "$data" "$folder"
