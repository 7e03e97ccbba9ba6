#!/usr/bin/env bash
# Usage: local/cross_validate.sh [options]
# Word error rates of game dialogue through Vosk's small English model, cross-validated over scenes: the model's own
# language model, interpolation, MDI, MDI with new words, and a larger model that rescores. Stages: 0 draws the folds, 1
# language models, 2 the own model's n-best lists, 3 LM weights on development scenes and rescoring, 4 first passes at
# libvosk's own weight and at the tuned weight, which is in the graph, 5 the table. Data go to data/dialogue-folds, the
# rest to exp/dialogue-folds, of the current folder. What is up to date is not made again: after an interruption the
# same command goes on.
# shellcheck disable=SC2034  # options are read by name, in utils/
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/up_to_date.sh
. "$mdi_root/utils/up_to_date.sh"

stage=0  # first stage
stop_stage=5  # last stage
game=""  # the game's queen.1c, or Debian's package flight-of-the-amazon-queen (downloaded with apt-get)
vosk_model=""  # directory of Vosk's small English model (downloaded)
utterances=2500  # of all test sets together, at least, and six times as many words
folds=5  # so many
large_text=""  # TEXT[,TEXT]: general text for the larger model (none)
# LM weight in the graph: what n-best lists ask for (1.35 to 1.55) is too much for the directory's beam of 10, see RESULTS.md
first_passes=tune@1.25,interpolated@1.25,own@1.25,words-large@1.25,words@1.25,tune@1,interpolated@1,prior@1.25  # MODEL@WEIGHT
nj=1  # threads that decode
parse_options "$@"
[[ ${#arguments[@]} -eq 0 ]] || fail "'${arguments[0]}' is no option; see --help" 2
need_mdi dialogue,vosk
corpus=dialogue-folds dry_run=false
data=data/$corpus exp=exp/$corpus
lock_folder "$exp" "$data"

stage_of() {
  case $1 in
    */decode/own/*) echo 2 ;;
    data/*) echo 0 ;;
    *.arpa.gz) echo 1 ;;
    *) echo 3 ;;
  esac
}

at_stage() {
  if [[ $stage -gt $1 || $stop_stage -lt $1 ]]; then return 1; fi
  echo "--- stage $1: $2 ($(date '+%H:%M:%S'))" >&2
}

# lm_of MODEL FOLD
lm_of() { if [[ $1 == own ]]; then echo "$data/background.arpa.gz"; else echo "$exp/fold.$2/$1.arpa.gz"; fi; }

# make_models FOLD: interpolation, MDI with a prior, the best of a search, and the larger model
make_models() {
  local fold=$1 out=$exp/fold.$1 text=$data/fold.$1/train.txt.gz dev=$data/fold.$1/dev.txt.gz own=$data/background.arpa.gz
  make_once "$out/in.arpa.gz" from "$text" "$data/vocab.txt" by mdi train --order 3 --smoothing kn-interpolated \
    --min-counts 1 --vocab "$data/vocab.txt" "$text" "$out/in.arpa.gz"
  make_once "$out/interpolated.arpa.gz" from "$out/in.arpa.gz" "$own" "$dev" by \
    mdi mix --tune "$dev" "$out/in.arpa.gz" "$own" "$out/interpolated.arpa.gz"
  make_once "$out/prior.arpa.gz" from "$own" "$text" by \
    mdi adapt --min-counts 1 --sigma2 1 --new-words map "$own" "$text" "$out/prior.arpa.gz"
  make_once "$out/tune.arpa.gz" from "$own" "$text" "$dev" by \
    mdi tune --max-order 3 --new-words map "$own" "$text" "$dev" "$out/tune.arpa.gz"
  if [[ -n $large_text ]]; then
    make_once "$out/general.arpa.gz" from "$exp/large.arpa.gz" "$own" "$dev" by \
      mdi mix --tune "$dev" "$exp/large.arpa.gz" "$own" "$out/general.arpa.gz"
    make_once "$out/large.arpa.gz" from "$out/general.arpa.gz" "$text" "$dev" by \
      mdi tune "$out/general.arpa.gz" "$text" "$dev" "$out/large.arpa.gz"
  fi
}

# make_graph MODEL WEIGHT FOLD: `words` is mdi tune with the words of the text that the recogniser lacks, `words-large`
# the same, whose lattices the larger model rescores
make_graph() {
  local lm text=$data/fold.$3/train.txt.gz dev=$data/fold.$3/dev.txt.gz large=() graph=$exp/fold.$3/graph/$1.$2
  case $1 in
    words | words-large)
      if [[ $1 == words-large ]]; then large=(--large "$exp/fold.$3/large.arpa.gz"); fi
      make_once "$graph" from "$text" "$dev" ${large[1]:+"${large[1]}"} by mdi vosk adapt --dev "$dev" --lm-weight "$2" \
        ${large[@]+"${large[@]}"} "$data/vosk-model" "$text" "$graph"
      ;;
    *)
      lm=$(lm_of "$1" "$3")
      make_once "$graph" from "$lm" by mdi vosk replace-lm --lm-weight "$2" "$data/vosk-model" "$lm" "$graph"
      ;;
  esac
}

# first_pass MODEL WEIGHT FOLD
first_pass() {
  local graph=$exp/fold.$3/graph/$1.$2 out=$exp/fold.$3/decode/$1.$2
  make_graph "$@"
  make_once "$out/text" from "$graph/mdi.json" "$data/fold.$3/speech/test/wav.scp" by \
    mdi vosk decode --nj "$nj" --n-best 1 "$graph" "$data/fold.$3/speech/test" "$out"
}

{
  if at_stage 0 "folds"; then
    make_once "$data/folds" from "$mdi_root/local/folds.py" by python3 "$mdi_root/local/folds.py" --folds "$folds" \
      --utterances "$utterances" --least-words "$((6 * utterances))" ${game:+--game "$game"} ${vosk_model:+--vosk-model "$vosk_model"} "$data"
  fi
  read -ra numbers < "$data/folds"
  models=(own interpolated prior tune)
  [[ -z $large_text ]] || models+=(large)

  if at_stage 1 "language models"; then
    if [[ -n $large_text ]]; then
      IFS=, read -ra texts <<< "$large_text"
      make_once "$exp/large.arpa.gz" from "${texts[@]}" "$data/vocab.txt" by mdi train --order 4 \
        --smoothing kn-interpolated --min-counts 1-1-2-2 --vocab "$data/vocab.txt" "${texts[@]}" "$exp/large.arpa.gz"
    fi
    for fold in "${numbers[@]}"; do make_models "$fold"; done
  fi

  if at_stage 2 "n-best lists of the own model"; then
    make_once "$exp/decode/own/num_jobs" from "$data/speech/wav.scp" by mdi vosk decode --nj "$nj" --n-best 100 \
      --lattice-beam 6 "$data/vosk-model" "$data/speech" "$exp/decode/own"
  fi

  if at_stage 3 "LM weights, and rescoring"; then
    for model in "${models[@]}"; do
      lms=()
      for fold in "${numbers[@]}"; do lms+=("$(lm_of "$model" "$fold")"); done
      make_once "$exp/scores/$model.nbest.tuned.tsv" from "$exp/decode/own/num_jobs" "${lms[@]}" by \
        python3 "$mdi_root/local/cross_validate.py" weigh "$data" "$exp/decode/own" "$(lm_of "$model" '{}')" \
        "$exp/fold.{}/$model" "$exp/scores" "$model"
    done
  fi

  if at_stage 4 "first passes"; then
    for pass in ${first_passes//,/ }; do
      for fold in "${numbers[@]}"; do first_pass "${pass%@*}" "${pass#*@}" "$fold"; done
      python3 "$mdi_root/local/cross_validate.py" score "$data" "$exp/fold.{}/decode/${pass/@/.}" "$exp/scores" "first.${pass/@/.}"
    done
  fi

  if at_stage 5 "table"; then
    python3 "$mdi_root/local/cross_validate.py" table --baseline own.nbest.tuned --baseline interpolated.nbest.tuned \
      --baseline first.own.1.25 --baseline first.interpolated.1.25 "$exp/scores" \
      > "$exp/table.tsv"
    cat "$exp/table.tsv"
  fi
  exit
}
