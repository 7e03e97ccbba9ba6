#!/usr/bin/env bash
# First-pass decoding of a data folder by libvosk: its words, and lattices of its best sequences.
# Usage: steps/decode_vosk.sh [options] MODEL DATA DIR
# MODEL is a Vosk model's folder. A decoding that was stopped goes on where it was, unless the model or the speech has
# changed since.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

nj=1  # threads
lattice_beam=6  # beam of the lattices
n_best=100  # so many sequences
allow_pipes=false  # run the commands that tables have for recordings, in a shell: for data that you trust
parse_options "$@"
need_arguments 3
model=${arguments[0]} data=${arguments[1]} folder=${arguments[2]}
need_files "$model" "$data/wav.scp"
log_to "$folder/log/decode.log"
need_mdi vosk
began=$folder/decode.json
# older decodings are no two alike, as libvosk added noise to the sound
if [[ -e $began ]] && { [[ $model/mdi.json -nt $began || $data/wav.scp -nt $began ]] || ! grep -q '"dither"' "$began"; }; then
  rm -rf -- "$folder"/lat.* "$folder"/results.* "$folder"/num_jobs "$folder"/scoring_kaldi "$folder"/wer_* "$began"
fi
mdi vosk decode --nj "$nj" --n-best "$n_best" --lattice-beam "$lattice_beam" --allow-pipes "$allow_pipes" \
  "$model" "$data" "$folder"
check_lattices "$folder" "$(whole_number "$folder/num_jobs")"
