#!/usr/bin/env bash
# Checks a folder that local/prepare_data.sh has made: every file, every format, and what they must have in common.
set -euo pipefail
# shellcheck source=utils/step.sh
. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
step_name=utils/validate_data.sh

usage() {
  cat << 'EOF'
Usage: utils/validate_data.sh DIR
DIR must have
  train.txt.gz                in-domain text, one sentence a line, words between blanks, no <s> or </s>
  background.txt.gz           general text in the same form; or background.arpa.gz, a model of it
  vocab.txt                   one word a line: the words of every model
  sets                        names of the test sets on one line; the first is the development set
  <set>.txt.gz                the text of each
and may have
  default.arpa.gz             a small model for the first pass (otherwise pruned from the in-domain one)
  speech/<set>/               Kaldi data folders: text, utt2spk, spk2utt and wav.scp. With them
  words.txt, lexicon.txt      Kaldi's symbol table, and 'word phone phone ...', to decode with the built-in model; or
  words.txt, lattices/<set>/  lat.N.gz and num_jobs of another system, made with default.arpa.gz
EOF
}

echo "$0 $*" >&2
parse_options "" "$@"
if [[ ${#arguments[@]} -ne 1 ]]; then
  usage >&2
  exit 2
fi
need_mdi
exec python3 "$mdi_root/utils/validate_data.py" "${arguments[0]}"
