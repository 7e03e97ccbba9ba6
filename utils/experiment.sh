# shellcheck shell=bash
# The files of an experiment, and what its stages do alike for every model and test set. The variables are options of
# run.sh. Source it after utils/script_common.sh.
# shellcheck disable=SC2154,SC2034
for name in up_to_date kaldi kaldi_recipe packages look_ahead; do
  # shellcheck disable=SC1090  # each is checked by itself
  . "$mdi_root/utils/$name.sh"
done
steps=$mdi_root/steps

# at_stage N NAME: is it among the stages to run? Says that it begins.
at_stage() {
  if [[ $stage -gt $1 || $stop_stage -lt $1 ]]; then return 1; fi
  [[ $dry_run == false ]] || show_plan "${exp:-data}"
  echo "--- stage $1: $2 ($corpus${part:+/$part}, $(date '+%H:%M:%S'))" >&2
}

# stage_of FILE: the stage that makes it, if one does: not a file of a recipe, whatever its directory is called
stage_of() {
  case $1 in
    data/*) echo 0 ;;
    exp/*/lm/interpolated.arpa.gz) echo 2 ;;
    exp/*/lm/*) echo 1 ;;
    exp/*/mdi/*) echo 3 ;;
    exp/*/first/*) echo 4 ;;
    exp/*/decode/* | exp/*/graph/*) echo 5 ;;
    exp/*/rescore/*) echo 6 ;;
  esac
}

# data_inputs: the files and directories that stage 0 reads, one per line
data_inputs() {
  local name folder pair folders decoded
  for name in in_text background_text background_lm dev_text eval_text vocab words default_lm lexicon; do
    if [[ -n ${!name} ]]; then printf '%s\n' "${!name}"; fi
  done
  IFS=, read -ra folders <<< "$data_dir"
  IFS=, read -ra decoded <<< "$lattice_dir"
  if [[ -n $recipe ]]; then
    folders=("$egs_dir/$train_data")
    printf '%s\n' "$egs_dir/$lang/words.txt"
    for pair in $set_data; do folders+=("$egs_dir/${pair#*=}"); done
    for pair in $decode_dirs; do decoded+=("$egs_dir/${pair#*=}"); done
  fi
  # not all that is in them: Kaldi's programs write there too
  for folder in ${folders[@]+"${folders[@]}"}; do
    for name in text wav.scp segments utt2spk spk2utt; do
      if [[ -e $folder/$name ]]; then printf '%s\n' "$folder/$name"; fi
    done
  done
  for folder in ${decoded[@]+"${decoded[@]}"}; do compgen -G "$folder/lat.*.gz" || true; done
  printf '%s\n' "$mdi_root"/local/*.sh "$mdi_root"/local/*.py
}

# data_options: what local/prepare_data.sh is told, one per line
data_options() {
  local name names=(nj backend demo recorded vosk_model game prompts language utterances tiny in_text background_text
    background_lm dev_text eval_text normalise vocab vocab_size case data_dir lattice_dir words default_lm new_words lexicon)
  [[ -z $recipe ]] || names+=(egs_dir train_data set_data lang decode_dirs lang_from data_from model_from)
  for name in "${names[@]}"; do printf '%s\n' "--${name//_/-}" "${!name}"; done
  if [[ -n $recipe ]] && decodes_here; then printf '%s\n' --decodes true; fi
}

# choose_backend: where none is given, libvosk for speech that is to be decoded
choose_backend() {
  if [[ -z $backend ]]; then
    backend=mdi
    if [[ -n $recorded || (-n $data_dir && -z $lattice_dir) ]]; then backend=vosk; fi
    if [[ $demo == true ]]; then
      if command -v espeak-ng > /dev/null; then
        backend=vosk
      else
        echo "$script_name: no program espeak-ng, which would speak the test sets: perplexities only" >&2
      fi
    fi
  fi
  [[ $backend =~ ^[a-z]+$ && -f $mdi_root/local/conf/backends/$backend.conf ]] \
    || fail "--backend $backend; expected one of $(cd "$mdi_root/local/conf/backends" && echo *.conf | sed 's/[.]conf//g')" 2
}

# enter PART: the paths of one part of the corpus; most corpora are one part
enter() {
  part=$1 data=data/$corpus${1:+/$1} exp=exp/$corpus${1:+/$1}
  background=$exp/lm/background.arpa.gz
  if [[ -n $background_lm || (-z $background_text && $backend == vosk && $demo == false) \
    || -e $data/background.arpa.gz ]]; then
    background=$data/background.arpa.gz
  fi
  default=$exp/first/default.arpa.gz
  if [[ -n $default_lm || $backend == vosk || $tiny == true || -e $data/default.arpa.gz ]]; then
    default=$data/default.arpa.gz
  fi
  find_sets
  dev=$data/${sets[0]:-dev}.txt.gz
  texts=(${sets[@]+"${sets[@]/#/$data/}"})
  texts=(${texts[@]+"${texts[@]/%/.txt.gz}"})
  mapfile -t swept < <(tr , '\n' <<< "$thresholds" | sed 's/^/mdi./')
  swept_lms=("${swept[@]/#/$exp/mdi/}")
  swept_lms=("${swept_lms[@]/%/.arpa.gz}")
  small=(default mdi best) large=(interpolated "${swept[@]}" prior best)
  if [[ $decodes_large == true ]]; then
    small=(default interpolated prior best)
    if [[ $full == true ]]; then small+=("${swept[@]}"); fi
    if shows_new_words; then small+=(new_words); fi
  fi
}

# shows_new_words: a Vosk model that is adapted as it is: one more model in the first pass, which knows the words of the
# text that this one lacks
shows_new_words() {
  [[ $backend == vosk && $new_words == map && $demo == false && -z $background_text$background_lm ]]
}

# find_sets: the test sets, the development set first, and those of them that have speech
find_sets() {
  local set
  sets=() spoken=()
  if [[ -e $data/sets ]]; then
    read -ra sets < "$data/sets"
    for set in "${sets[@]}"; do
      if [[ -d $data/speech/$set ]]; then spoken+=("$set"); fi
    done
  fi
}

# the file of a first-pass model, and of one for rescoring
small_lm() {
  if [[ $1 == default ]]; then
    echo "$default"
  elif [[ $1 == new_words ]]; then
    echo "$(vosk_folder new_words)/graph/Gr.fst"
  elif [[ $decodes_large == true ]]; then
    large_lm "$1"
  else
    echo "$exp/first/$1.arpa.gz"
  fi
}
large_lm() { if [[ $1 == interpolated ]]; then echo "$exp/lm/$1.arpa.gz"; else echo "$exp/mdi/$1.arpa.gz"; fi; }

# left_out LM [WHAT]: a ready background model needs no stage 1 and 2, and without them there is no interpolation, nor
# what comes of it
left_out() {
  if [[ -z $background_lm ]] || there "$1"; then return 1; fi
  [[ -z ${2:-} ]] || echo "$2, as $1 is not there; stage $(stage_of "$1") makes it" >&2
}

# has_speech: is there a test set to be recognised?
has_speech() {
  if [[ ${#spoken[@]} -gt 0 ]]; then return; fi
  if [[ -e $data/sets ]]; then
    echo "no speech in $data/speech: perplexities only" >&2
  else # in a dry run
    echo "  which test sets there are, and with speech, is known when stage 0 is through" >&2
  fi
  return 1
}

# baselines PASS: what the models of the first pass (decode; heard), or those for rescoring (rescore), are compared with
baselines() {
  if [[ $1 == heard ]]; then printf '%s\n' "$exp/heard/default" "$exp/heard/interpolated"; fi
  if [[ $1 == decode ]]; then echo "$exp/decode/default"; fi
  if [[ $1 == rescore || $decodes_large == true ]] && [[ -d $exp/$1/interpolated ]]; then
    echo "$exp/$1/interpolated"
  fi
  if [[ $1 == rescore && ($decodes_large == true || ! -d $exp/rescore/interpolated) ]]; then
    echo "$exp/decode/default"
  fi
}

# rescore OLD NEW FROM TO
rescore() {
  local options=(--cmd "$cmd" --words "$data/words.txt")
  if [[ $backend == kaldi ]]; then options+=(--rescore-script "$rescore_script"); else options+=(--nj "$nj"); fi
  make_once "$4/num_jobs" from "$3/num_jobs" "$1" "$2" by "$steps/$rescore_step" "${options[@]}" "$@"
}

# needs_graph MODEL: not where lattices are there already, of the default model or to put another one into
needs_graph() { [[ ! -d $data/lattices ]] || { [[ $1 != default ]] && decodes_here; }; }

# make_graphs: one by one, they take much memory
make_graphs() {
  local model lm
  for model in "${small[@]}"; do
    lm=$(small_lm "$model")
    if left_out "$lm" || ! needs_graph "$model"; then continue; fi
    if [[ $backend == kaldi ]]; then
      graph_in_recipe "$model" "$lm"
    elif [[ $model == new_words ]]; then # as MDI with a prior, over a larger vocabulary: a graph with more words
      make_once "$(vosk_folder new_words)" "$lm" from "$train" "$data/words.txt" ${lexicon:+"$lexicon"} by \
        mdi vosk adapt --new-words add --normalise none ${lexicon:+--lexicon "$lexicon"} "$data/vosk-model" "$train" \
        "$(vosk_folder new_words)"
    elif [[ $model != default ]]; then # which is in the Vosk model as it is
      make_once "$(vosk_folder "$model")" from "$lm" "$data/words.txt" by \
        mdi vosk replace-lm "$data/vosk-model" "$lm" "$(vosk_folder "$model")"
    fi
  done
}

# vosk_folder MODEL: a Vosk model with this language model
vosk_folder() { if [[ $1 == default ]]; then echo "$data/vosk-model"; else echo "$exp/graph/$1"; fi; }

# words_of FOLDER: the symbol table of the lattices in it
words_of() { if [[ $1 == */new_words ]]; then small_lm new_words; else echo "$data/words.txt"; fi; }

# beam_with MODEL: of the lattices. MDI without a prior has weights so extreme that libvosk takes ten times as long to
# determinise the usual lattices.
beam_with() { if [[ $1 == mdi.* && $(printf '%.0f' "$lattice_beam") -gt 4 ]]; then echo 4; else echo "$lattice_beam"; fi; }

# first_pass MODEL SET: its lattices, by decoding, or from those of another system, which come with the data
first_pass() {
  local lm out=$exp/decode/$1/$2 ready=$data/lattices/$2
  lm=$(small_lm "$1")
  if left_out "$lm"; then return; fi
  need "$lm"
  if [[ -d $ready && $1 == default ]]; then
    make_once "$out/num_jobs" from "$ready/num_jobs" "$ready/lat.1.gz" by "$steps/link_lattices.sh" "$ready" "$out"
  elif [[ -d $ready ]] && ! decodes_here; then # no acoustic model: the small model goes into the lattices instead
    rescore "$default" "$lm" "$exp/decode/default/$2" "$out"
    [[ $dry_run == true ]] || touch "$out/rescored" # for the table
  elif [[ $backend == kaldi ]]; then
    decode_in_recipe "$1" "$2"
  else
    make_once "$out/num_jobs" from "$lm" "$data/speech/$2/wav.scp" by "$steps/$decode_step" --nj "$nj" \
      --allow-pipes "$allow_pipes" --lattice-beam "$(beam_with "$1")" ${channel:+--channel "$channel"} \
      --max-overshoot "$max_overshoot" "$(vosk_folder "$1")" "$data/speech/$2" "$out"
  fi
}

# score SYSTEM SET BASELINE...: the first set chooses LM weight and penalty, the others are scored there
score() {
  local of=$data/speech/$2 options=() baseline compared=()
  # of a model that is left out
  if [[ $1 != "$exp/decode/default" && ! -d $1 ]] && ! there "$1/$2/num_jobs"; then return; fi
  if [[ -n $recipe ]]; then mapfile -t options < <(scoring_options); fi
  # its own data directory, where its script finds more than text
  if [[ -n $recipe && $backend == kaldi ]]; then of=$egs_dir/$(of_set "$2" "$set_data"); fi
  [[ $2 == "${sets[0]}" ]] || options+=(--tuned-on "$1/${sets[0]}")
  for baseline in "${@:3}"; do
    # in the order of the models: interpolation is not scored when the default is
    if [[ $1 != "$baseline" && $1 != */decode/default ]]; then compared+=("$baseline/$2"); fi
  done
  [[ ${#compared[@]} -eq 0 ]] || options+=(--compare-with "$(IFS=, && echo "${compared[*]}")")
  make_once "$1/$2/scoring_kaldi/best_wer" from "$1/$2/num_jobs" "$data/speech/$2/text" by "$steps/$score_step" \
    --cmd "$cmd" --words "$(words_of "$1")" --min-lmwt "$min_lmwt" --max-lmwt "$max_lmwt" \
    --word-ins-penalty "$word_ins_penalty" ${options[@]+"${options[@]}"} "$of" "$1/$2"
}

# score_words MODEL SET BASELINE...: of what libvosk says with this model, at its own LM weight
score_words() {
  local baseline compared=() out=$exp/heard/$1/$2
  for baseline in "${@:3}"; do
    # in the order of the models: interpolation is not there when the default is scored
    if [[ $baseline != "$exp/heard/$1" && $1 != default ]]; then compared+=("$baseline/$2"); fi
  done
  make_once "$out/scoring_kaldi/best_wer" from "$exp/decode/$1/$2/num_jobs" "$data/speech/$2/text" by \
    "$steps/$words_step" --compare-with "$(IFS=, && echo "${compared[*]-}")" "$data/speech/$2" "$exp/decode/$1/$2" \
    "$out"
}

# perplexities NAME LM: of every test set
perplexities() {
  if there "$2"; then
    make_once "$exp/ppl/$1.jsonl" from "$2" "${texts[@]}" by \
      "$steps/compute_ppl.sh" "$2" "${texts[@]}" "$exp/ppl/$1.jsonl"
  fi
}
