#!/usr/bin/env bash
# Checks a directory that local/prepare_data.sh has made: every file, every format, and what they must have in common.
# Usage: utils/validate_data.sh DIR
# DIR must have
#   train.txt.gz                in-domain text in UTF-8, one sentence per line, words between blanks, no <s> or </s>
#   background.txt.gz           general text in the same form; or background.arpa.gz, a model of it
#   vocab.txt                   one word per line: the words of every model
#   sets                        names of the test sets on one line; the first is the development set
#   <set>.txt.gz                the text of each
# and may have
#   default.arpa.gz             a small model for the first pass (otherwise pruned from the in-domain one)
#   speech/<set>/               Kaldi data directories: text, utt2spk, spk2utt and wav.scp. With them
#   words.txt, vosk-model/      Kaldi's symbol table and a Vosk model that it belongs to, to decode with libvosk;
#                               default.arpa.gz is its own language model; or
#   words.txt, lattices/<set>/  lat.N.gz and num_jobs of another system, made with default.arpa.gz
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/script_common.sh"

parse_options "$@"
need_arguments 1
need_mdi
exec python3 "$mdi_root/utils/validate_data.py" "${arguments[0]}"
