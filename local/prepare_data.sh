#!/usr/bin/env bash
# Stage 0: the one script to replace for a corpus that comes in another form. It fills the folder that it is given; what must
# be there when it is through, `utils/validate_data.sh --help` says, and utils/validate_data.sh checks.
set -euo pipefail
# shellcheck source=utils/step.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/step.sh"
step_name=local/prepare_data.sh

usage() {
  cat << 'EOF'
Usage: local/prepare_data.sh DIR
run.sh calls it with its settings as variables of the environment: corpus, tiny, in_text, background_text, background_lm,
dev_text, eval_text, vocab, vocab_size, data_dir, lexicon, lattice_dir, words, default_lm, nj, and for a Kaldi recipe egs_dir,
train_data, set_data, lang, decode_dirs, case.
EOF
}

echo "$0 $*" >&2
parse_options "" "$@"
if [[ ${#arguments[@]} -ne 1 ]]; then
  usage >&2
  exit 2
fi
dir=${arguments[0]}
mkdir -p "$dir"
need_mdi
corpus=${corpus:-} tiny=${tiny:-false} in_text=${in_text:-} background_text=${background_text:-} background_lm=${background_lm:-}
dev_text=${dev_text:-} eval_text=${eval_text:-} vocab=${vocab:-} vocab_size=${vocab_size:-100000} data_dir=${data_dir:-}
lexicon=${lexicon:-} lattice_dir=${lattice_dir:-} words=${words:-} default_lm=${default_lm:-} egs_dir=${egs_dir:-}
train_data=${train_data:-} set_data=${set_data:-} lang=${lang:-} decode_dirs=${decode_dirs:-} case=${case:-} nj=${nj:-1}

if [[ $corpus == demo* ]]; then
  options=(--downloads "$(dirname "$dir")/downloads" --speech "${speech:-true}")
  if [[ $tiny == true ]]; then options+=(--tiny true); fi
  exec python3 "$mdi_root/local/prepare_demo.py" "${options[@]}" "$dir"
fi

options=(--vocab-size "$vocab_size" --nj "$nj")
if [[ -n $train_data ]]; then # of a Kaldi recipe
  [[ -n $background_text$background_lm ]] \
    || fail "no background for $corpus: give --background-text (such as the folder of One Billion Word) or --background-lm"
  options+=(--in-data "$egs_dir/$train_data" --words "$egs_dir/$lang/words.txt")
  [[ -z $case ]] || options+=(--case "$case")
  for pair in $set_data; do
    if [[ -e $egs_dir/${pair#*=}/text ]]; then
      options+=(--speech "${pair%%=*}=$egs_dir/${pair#*=}")
    elif [[ $pair == "${set_data%% *}" ]]; then
      fail "$egs_dir/${pair#*=}/text is not there; the recipe's own run.sh makes it"
    else
      echo "$step_name: no $egs_dir/${pair#*=}/text: the set ${pair%%=*} is left out" >&2
    fi
  done
  for pair in $decode_dirs; do
    # a recipe that has not been decoded yet, or not all of it, still gives its perplexities
    if [[ -e $egs_dir/${pair#*=}/lat.1.gz ]]; then
      options+=(--lattices "${pair%%=*}=$egs_dir/${pair#*=}")
    else
      echo "$step_name: no lattices in $egs_dir/${pair#*=}: no WER of ${pair%%=*}" >&2
    fi
  done
else
  [[ -z $lattice_dir || -n $data_dir ]] || fail "--lattice-dir without --data-dir, the Kaldi data folders of these lattices"
  [[ -n $in_text ]] || fail "no --in-text, and no local/conf/$corpus.conf; see ./run.sh --help"
  [[ -n $dev_text$data_dir ]] || fail "no development set: give --dev-text or --data-dir; see ./run.sh --help"
  [[ -n $background_text$background_lm ]] || fail "no background: give --background-text or --background-lm; see ./run.sh --help"
  options+=(--in-text "$in_text")
  [[ -z $dev_text ]] || options+=(--text "dev=$dev_text")
  [[ -z $eval_text ]] || options+=(--text "eval=$eval_text")
  names=(dev eval)
  IFS=, read -ra folders <<< "$data_dir"
  IFS=, read -ra decoded <<< "$lattice_dir"
  [[ ${#folders[@]} -le 2 && ${#decoded[@]} -le ${#folders[@]} ]] \
    || fail "--data-dir $data_dir --lattice-dir $lattice_dir; expected one or two folders, and lattices only with a data folder"
  for i in "${!folders[@]}"; do options+=(--speech "${names[i]}=${folders[i]}"); done
  for i in "${!decoded[@]}"; do options+=(--lattices "${names[i]}=${decoded[i]}"); done
  [[ -z $words ]] || options+=(--words "$words")
fi
[[ -z $default_lm ]] || options+=(--default-lm "$default_lm")
[[ -z $background_text ]] || options+=(--background-text "$background_text")
[[ -z $background_lm ]] || options+=(--background-lm "$background_lm")
[[ -z $vocab ]] || options+=(--vocab "$vocab")
[[ -z $lexicon ]] || options+=(--lexicon "$lexicon")
exec python3 "$mdi_root/local/prepare_corpus.py" "${options[@]}" "$dir"
