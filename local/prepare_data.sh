#!/usr/bin/env bash
# Stage 0: the one script to replace for a corpus that comes in another form.
# Usage: local/prepare_data.sh [options] DIR
# It fills DIR; what must be there when it is through, `utils/validate_data.sh --help` says, and utils/validate_data.sh
# checks. run.sh calls it with those of its own options that are listed here, first with --dry-run true.
# shellcheck disable=SC2034  # options are read by name
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi_recipe.sh
. "$mdi_root/utils/kaldi_recipe.sh"

dry_run=false  # make nothing: name everything that is missing, and end with exit code 1 if there is something
nj=1  # processes
backend=mdi  # vosk: a Vosk model decodes the speech; with --demo true espeak-ng makes it
vosk_model=""  # directory of that model (Vosk's small English one, downloaded)
# Corpora of its own:
tiny=false  # the very small one, local/tiny
demo=false  # texts of package registries
recorded=""  # recorded speech: dialogue of a game, or prompts of a telephone exchange
game=""  # dialogue: the game's queen.1c, or Debian's package (downloaded)
prompts=""  # prompts: directory with Debian's packages (downloaded)
language=en  # prompts: en, fr or ru
only_downloads=false  # nothing but the downloads that this needs
utterances=0  # of the evaluation set, to be recognised, and half as many of the development set (0: all)
# A corpus as files, one sentence per line, plain or gzipped:
in_text=""  # in-domain training text
background_text=""  # general text; with --case also a directory of texts
background_lm=""  # or a ready model of it
dev_text=""  # development text
eval_text=""  # evaluation text
normalise=auto  # auto: these in the words of the recogniser, where there is one; none: as they are
vocab=""  # one word per line, or words.txt (words of the texts, or of the background model)
vocab_size=100000  # most words to take from the background text
case=""  # upper or lower: normalise the background text: numbers in words, no punctuation, this letter case
# and with speech:
data_dir=""  # Kaldi data directories of development and evaluation set, separated by a comma
lattice_dir=""  # lattices lat.N.gz of these data directories, by another system
words=""  # symbol table of these lattices
default_lm=""  # the model that they were made with
new_words=map  # words of the in-domain text that the recogniser lacks: map to <unk>, or add to it and to the vocabulary
lexicon=""  # how they are said, 'word phone ...' or 'word = known words' (by their letters)
# A Kaldi recipe, instead of in-text, dev-text, data-dir and lattice-dir; paths are relative to it:
egs_dir=""  # its directory
train_data=""  # data directory with the in-domain text
set_data=""  # data directories of the test sets, 'dev=data/dev eval=data/eval', the development set first
lang=""  # lang directory with words.txt
decode_dirs=""  # lattices of the test sets, 'dev=exp/.../decode_dev ...'
decodes=false  # where there are none: its acoustic model will decode the test sets
lang_from=run.sh  # its script that makes the lang directory
data_from=run.sh  # that makes the data
model_from=run.sh  # that makes the lattices
parse_options "$@"
need_arguments 1
dir=${arguments[0]}

missing=() # messages, all of them shown at once
lacks() { missing+=("$1"); }
leaves_out() { echo "$script_name: left out: $1" >&2; }
lacks_file() { [[ -z $1 || -r $1 ]] || lacks "$1: no such file, or it cannot be read"; }

downloads=$(dirname "$dir")/downloads vosk=false
if [[ $backend == vosk ]]; then vosk=true; fi
if [[ $tiny == true ]]; then
  here=$mdi_root/local/tiny
  in_text=$here/train.txt.gz background_text=$mdi_root/mdi/demo_texts/general.txt.gz
  data_dir=$here/dev,$here/eval lattice_dir=$data_dir words=$here/words.txt default_lm=$here/default.arpa.gz
fi
options=(--nj "$nj")
[[ -z $vosk_model || -d $vosk_model ]] || lacks "$vosk_model: no such directory"
lacks_file "$lexicon"
[[ $demo == false || $new_words == map ]] || lacks "--new-words $new_words: the texts of the demo have no new words"
if [[ $demo == true ]]; then
  program=prepare_demo.py
  options+=(--downloads "$downloads" --speech "$vosk" ${vosk_model:+--vosk-model "$vosk_model"})
elif [[ -n $recorded ]]; then
  program=prepare_recorded.py
  options=(--new-words "$new_words" ${lexicon:+--lexicon "$lexicon"} --source "$recorded" --downloads "$downloads" --spoken "$utterances" --only-downloads "$only_downloads")
  options+=(--language "$language" ${vosk_model:+--vosk-model "$vosk_model"} ${game:+--game "$game"} ${prompts:+--prompts "$prompts"})
  have_debian() { command -v apt-get && command -v dpkg-deb; } > /dev/null
  case $recorded in
    dialogue)
      [[ -n $game || -e $downloads/queen.1c ]] || have_debian \
        || lacks "no apt-get and dpkg-deb to get Flight of the Amazon Queen with; give its queen.1c: --game FILE" ;;
    prompts)
      [[ $language =~ ^(en|fr|ru)$ ]] || lacks "--language $language; expected en, fr or ru"
      folder=$downloads/telephone-prompts
      [[ $language == en ]] || folder+=-$language
      [[ -d $folder ]] || have_debian \
        || lacks "no apt-get and dpkg-deb to get Asterisk's prompts with; expected both" ;;
    *) lacks "--recorded $recorded; expected dialogue or prompts" ;;
  esac
  lacks_file "$game"
  lacks_file "$prompts"
else
  program=prepare_corpus.py
  options+=(--vocab-size "$vocab_size" --vosk "$vosk" --downloads "$downloads" --new-words "$new_words" --normalise "$normalise")
  for name in background_text background_lm case vocab default_lm vosk_model lexicon; do
    [[ -z ${!name} ]] || options+=("--${name//_/-}" "${!name}")
  done
  [[ -n $background_text$background_lm || $vosk == true ]] \
    || lacks "no background: give --background-text (such as the directory of One Billion Word) or --background-lm"
  for name in in_text background_text background_lm dev_text eval_text vocab words; do
    lacks_file "${!name}"
  done
  if [[ -n $train_data ]]; then
    [[ -e $egs_dir/$train_data/text ]] \
      || lacks "$egs_dir/$train_data/text is not there; the recipe's $data_from makes it"
    [[ -e $egs_dir/$lang/words.txt ]] \
      || lacks "$egs_dir/$lang/words.txt is not there; the recipe's $lang_from makes it, or give --lang"
    options+=(--in-data "$egs_dir/$train_data" --decodes "$decodes" --words "$egs_dir/$lang/words.txt")
    decoded=false
    for pair in $set_data; do
      if [[ -e $egs_dir/${pair#*=}/text ]]; then
        options+=(--speech "${pair%%=*}=$egs_dir/${pair#*=}")
      elif [[ $pair == "${set_data%% *}" ]]; then
        lacks "$egs_dir/${pair#*=}/text is not there; the recipe's $data_from makes it"
      else
        leaves_out "the set ${pair%%=*}, as there is no $egs_dir/${pair#*=}/text"
      fi
      lattices=$(of_set "${pair%%=*}" "$decode_dirs")
      # a recipe that has not been decoded yet, or not all of it, still gives its perplexities
      if [[ -n $lattices && -e $egs_dir/$lattices/lat.1.gz ]]; then
        options+=(--lattices "${pair%%=*}=$egs_dir/$lattices")
        decoded=true
      elif [[ -n $lattices ]]; then
        leaves_out "the WER of ${pair%%=*}: no lattices in $egs_dir/$lattices ($model_from makes them)"
      fi
    done
    [[ -e $default_lm || $decoded == false ]] \
      || lacks "$default_lm, the model of the lattices, is not there; $lang_from makes it, or give --default-lm"
  else
    [[ -n $in_text ]] || lacks "no --in-text, and no local/conf file of a corpus of that name; see ./run.sh --help"
    [[ -n $dev_text$data_dir ]] || lacks "no development set: give --dev-text or --data-dir"
    [[ -z $lattice_dir || -n $data_dir ]] \
      || lacks "--lattice-dir without --data-dir, the Kaldi data directories of these lattices"
    [[ -z $lattice_dir || -n $words ]] || lacks "--lattice-dir without --words, the symbol table of the lattices"
    [[ -z $lattice_dir || -n $default_lm ]] \
      || lacks "--lattice-dir without --default-lm, the model that the lattices were made with"
    lacks_file "$default_lm"
    options+=(--in-text "$in_text")
    [[ -z $dev_text ]] || options+=(--text "dev=$dev_text")
    [[ -z $eval_text ]] || options+=(--text "eval=$eval_text")
    [[ -z $words ]] || options+=(--words "$words")
    names=(dev eval)
    IFS=, read -ra folders <<< "$data_dir"
    IFS=, read -ra decoded <<< "$lattice_dir"
    [[ ${#folders[@]} -le 2 && (${#decoded[@]} -eq 0 || ${#decoded[@]} -eq ${#folders[@]}) ]] \
      || lacks "--data-dir $data_dir --lattice-dir $lattice_dir; expected one or two data directories, lattices with each"
    for i in "${!folders[@]}"; do
      options+=(--speech "${names[i]:-more}=${folders[i]}")
      lacks_file "${folders[i]}/text"
      [[ -n ${decoded[i]:-} ]] || lacks_file "${folders[i]}/wav.scp"
    done
    for i in "${!decoded[@]}"; do
      options+=(--lattices "${names[i]:-more}=${decoded[i]}")
      lacks_file "${decoded[i]}/lat.1.gz"
    done
  fi
fi
for message in ${missing[@]+"${missing[@]}"}; do echo "$script_name: $message" >&2; done
if [[ ${#missing[@]} -gt 0 ]]; then exit 1; fi
if [[ $dry_run == true ]]; then exit 0; fi
mkdir -p "$dir"
need_mdi
exec python3 "$mdi_root/local/$program" "${options[@]}" "$dir"
