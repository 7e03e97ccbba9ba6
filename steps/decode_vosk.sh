#!/usr/bin/env bash
# First-pass decoding of a data directory by libvosk: its words, and lattices of its best sequences.
# Usage: steps/decode_vosk.sh [options] MODEL DATA DIR
# MODEL is a Vosk model's folder. A decoding that was stopped goes on where it was, unless the model or an option has
# changed since; an utterance whose recording has changed is decoded again.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

nj=1  # threads
lattice_beam=6  # beam of the lattices
n_best=100  # so many sequences
allow_pipes=false  # run the commands that tables have for recordings, in a shell: for data that you trust
channel=""  # of recordings with several, counted from 1, where neither reco2file_and_channel nor segments say it
max_overshoot=0.5  # seconds: segments that end less than so much after their recording are cut there
parse_options "$@"
need_arguments 3
model=${arguments[0]} data=${arguments[1]} folder=${arguments[2]}
need_files "$model" "$data/wav.scp"
log_to "$folder/log/decode.log"
need_mdi vosk
mdi vosk decode --restart true --nj "$nj" --n-best "$n_best" --lattice-beam "$lattice_beam" --allow-pipes "$allow_pipes" \
  ${channel:+--channel "$channel"} --max-overshoot "$max_overshoot" "$model" "$data" "$folder"
check_lattices "$folder" "$(whole_number "$folder/num_jobs")"
