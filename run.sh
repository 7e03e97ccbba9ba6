#!/usr/bin/env bash
# Usage: ./run.sh [options]
# MDI adaptation of language models, from data to the table of perplexities and word error rates. Stages: 0 data, 1
# language models, 2 interpolation, 3 MDI, 4 first-pass models, 5 decoding, 6 rescoring, 7 scores, table and report.
# With no options: does adaptation lower the WER of a recogniser that people use, on recorded speech? The dialogue of a
# game through Vosk's small English model (--corpus dialogue), or, where one of them cannot be had, texts from package
# registries (--corpus demo). In or beside a Kaldi recipe (egs/ami/s5b, egs/swbd/s5c, egs/wsj/s5): that recipe's corpus.
# Data go to data/<corpus>, models and results to exp/<corpus>, of the current folder. What is up to date is not made
# again: after an interruption the same command goes on.
# shellcheck disable=SC2034  # options are read by name, in utils/
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/utils/script_common.sh"
# shellcheck source=utils/experiment.sh
. "$mdi_root/utils/experiment.sh"
schema=$mdi_root/local/conf/schema.sh
# shellcheck source=local/conf/schema.sh
. "$schema"

stage=0  # first stage
stop_stage=7  # last stage
dry_run=false  # make nothing: list what is missing, what would be made and about how long it would take
corpus=""  # dialogue, prompts, demo, tiny, ami, swbd, wsj, or a name for your own
conf=""  # file of settings, name=value (local/conf/<corpus>.conf if there is one)
tiny=false  # the same as --corpus tiny: a very small one, which is here and needs no network
nj=2  # jobs at a time
# Recorded speech (--corpus dialogue or prompts):
game=""  # the game's queen.1c, or Debian's package flight-of-the-amazon-queen (downloaded with apt-get)
utterances=400  # of the evaluation set, to be recognised, and half as many of the development set (0: all)
full=false  # all utterances, and every model in the first pass too
# Your texts, one sentence per line, plain or gzipped; prose, too, where speech is recognised (--normalise):
in_text=""  # in-domain training text
background_text=""  # general text; with --case also a directory of texts
background_lm=""  # or a ready model of it, an ARPA file, which is adapted as it is
dev_text=""  # development text
eval_text=""  # evaluation text, if there is one
vocab=""  # one word per line, or words.txt (words of the recogniser, of the texts or of the background model)
case=""  # upper or lower: normalise the background text, which is written English, to this letter case
# Your speech (perplexities only without):
data_dir=""  # DIR[,DIR]: Kaldi data directories of development and evaluation set: decoded with a Vosk model,
             # whose own language model is the background where none is given
vosk_model=""  # its directory, with a dynamic graph (Vosk's small English model, downloaded with npm or pip)
lattice_dir=""  # DIR[,DIR]: or lattices lat.N.gz of any Kaldi system for these data directories, with
words=""  # their symbol table, and
default_lm=""  # the model that they were made with, an ARPA file
# Models, decoding and scoring:
thresholds=2-2-2,5-3-2,6-4-3  # least counts of constraints, by order
max_settings=32  # settings that the search for the best model tries
backend=""  # vosk, mdi or kaldi, see local/conf/backends (vosk where speech is decoded, mdi where there are lattices)
allow_pipes=false  # run the commands that wav.scp has for recordings, in a shell: for data that you trust
egs_dir=${egs_dir:-}  # directory of a Kaldi recipe (the current directory, or beside this one)
cmd=run.pl  # run.pl, queue.pl, slurm.pl with options
cluster=""  # share the large models between Dask workers: local:N, tcp://host:port, slurm:CONF, sge:CONF
parse_options "$@"
[[ ${#arguments[@]} -eq 0 ]] || fail "'${arguments[0]}' is no option; see --help" 2

# ---- which corpus; its settings come between the defaults and the command line
egs_dir=${egs_dir:-$(recipe_around)}
own=$in_text$dev_text$eval_text$lattice_dir$data_dir # no part of the demo, nor of a recipe, which has its own
if [[ $tiny == true ]]; then corpus=${corpus:-tiny}; fi
[[ -n $corpus || -z $own ]] || corpus=mine
corpus=${corpus:-$(known_corpus ${egs_dir:+"$egs_dir"} "$mdi_root")}
[[ -n $corpus ]] || choose_demo
[[ $corpus =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] \
  || fail "--corpus $corpus; expected letters, digits, dots and dashes, a letter or digit first" 2
[[ -n $conf || ! -f $mdi_root/local/conf/$corpus.conf ]] || conf=$mdi_root/local/conf/$corpus.conf
if [[ -n $conf ]]; then
  need_files "$conf"
  read_settings "$conf"
  parse_options "$@"
fi
[[ $tiny == false || $corpus == tiny ]] || fail "--tiny true is a corpus of its own, not --corpus $corpus" 2
[[ -z $own || ($demo != true && $tiny != true && -z $recorded && -z $recipe) ]] \
  || fail "--corpus $corpus has its own texts and speech; for those on the command line give another --corpus" 2
[[ $language == en || $recorded == prompts ]] || fail "--language $language; only --corpus prompts speaks it" 2
[[ $new_words == map || $new_words == add ]] || fail "--new-words $new_words; expected map or add" 2
[[ $normalise == auto || $normalise == none ]] || fail "--normalise $normalise; expected auto or none" 2
[[ $stage =~ ^[0-7]$ && $stop_stage =~ ^[0-7]$ ]] \
  || fail "--stage $stage --stop-stage $stop_stage; expected numbers from 0 to 7" 2
if [[ $full == true ]]; then utterances=0; fi
choose_backend
read_settings "$mdi_root/local/conf/backends/$backend.conf"
parse_options "$@"
[[ $language == en ]] || corpus=$corpus-$language # a corpus of its own, whose settings are those of the English one
[[ $new_words == map || -n $recipe ]] || corpus=$corpus-new-words # over another vocabulary
problems=() omissions=()
if [[ -n $recipe ]]; then
  find_recipe
  choose_files
fi
export egs_dir

# ---- everything that is missing, at once; packages; one run at a time
reads_data=false # files on the command line go through stage 0 whatever the first stage is: it costs little
if [[ $stage -eq 0 || -n $in_text ]]; then reads_data=true; fi
find_problems
if [[ $dry_run == false ]]; then
  [[ ${#problems[@]} -eq 0 ]] || exit 1
  install_packages "$(needed_extra)"
  lock_folder "exp/$corpus" "data/$corpus"
  if [[ $new_words == add && -n $recipe ]]; then extend_lang; fi
fi

# in braces: read as a whole before it begins, so that this file may change (git pull) while it runs
{
  if at_stage 0 data || [[ $reads_data == true ]]; then
    mapfile -t inputs < <(data_inputs)
    mapfile -t options < <(data_options)
    make_once "data/$corpus/prepared" from "${inputs[@]}" by \
      "$mdi_root/utils/prepare_and_validate.sh" --parts "$parts" "data/$corpus" "${options[@]}"
  fi

  for part in ${parts:-""}; do
    enter "$part"
    train=$data/train.txt.gz words_of_models=$data/vocab.txt
    in=$exp/lm/in.arpa.gz interpolated=$exp/lm/interpolated.arpa.gz
    prior=$exp/mdi/prior.arpa.gz best=$exp/mdi/best.arpa.gz
    first=$exp/first # models for the first pass

    if at_stage 1 "language models"; then
      make_once "$in" from "$train" "$words_of_models" by "$steps/train_lm.sh" --order "$order" \
        --smoothing "$smoothing" --min-counts "$in_min_counts" --vocab "$words_of_models" --cluster "$cluster" "$train" "$in"
      if [[ $background != data/* ]]; then
        make_once "$background" from "$data/background.txt.gz" "$words_of_models" by "$steps/train_lm.sh" \
          --order "$order" --smoothing "$smoothing" --vocab "$words_of_models" --cluster "$cluster" \
          "$data/background.txt.gz" "$background"
      fi
    fi

    if at_stage 2 "interpolation, the baseline"; then
      make_once "$interpolated" from "$in" "$background" "$dev" by \
        mdi mix ${cluster:+--cluster "$cluster"} --tune "$dev" "$in" "$background" "$interpolated"
    fi

    if at_stage 3 "MDI: the paper's thresholds, a prior, and the best of a search"; then
      make_once "${swept_lms[@]}" "$exp/mdi/ppl.tsv" from "$background" "$train" by "$steps/adapt_mdi.sh" \
        --min-counts "$thresholds" --new-words "$new_words" --cluster "$cluster" --ppl "${texts[*]}" "$background" "$train" "$exp/mdi"
      make_once "$prior" from "$background" "$train" by \
        mdi adapt ${cluster:+--cluster "$cluster"} --min-counts 1 --sigma2 1 --new-words "$new_words" \
        --constraints-out "$exp/mdi/constraints.prior.tsv.gz" "$background" "$train" "$prior"
      mix_with=() # the same in-domain model as in the baseline, where there is one
      # but not where it has no <unk>, as Vosk's has not: tune's own in-domain model then does without, too
      if [[ $decodes_large == false ]] && there "$in"; then mix_with=("$in"); fi
      make_once "$best" from "$background" "$train" "$dev" ${mix_with[@]+"${mix_with[@]}"} by \
        mdi tune --new-words "$new_words" --max-settings "$max_settings" --sets "$thresholds" \
        ${mix_with[@]+--mix-with "${mix_with[@]}"} "$background" "$train" "$dev" "$best"
    fi

    if [[ $decodes_large == false ]] && at_stage 4 "first-pass models" && ! left_out "$interpolated" "no first-pass models"
    then
      if [[ $default != data/* ]]; then # a small in-domain model
        make_once "$default" from "$in" by "$steps/prune_lm.sh" --beside-words "$first_ngrams" "$in" "$default"
      fi
      # the same with the marginals of the interpolated model
      make_once "$first/mdi.arpa.gz" from "$default" "$interpolated" "$train" by \
        mdi match --new-words "$new_words" "$default" "$interpolated" "$train" "$first/mdi.arpa.gz"
      # the best model cut down to its size; what pruning takes from the marginals, matching gives back
      make_once "$first/pruned.arpa.gz" from "$best" "$default" by "$steps/prune_lm.sh" --like "$default" \
        --beside-words "$first_ngrams" "$best" "$first/pruned.arpa.gz"
      make_once "$first/best.arpa.gz" from "$first/pruned.arpa.gz" "$best" "$train" by \
        mdi match --new-words "$new_words" "$first/pruned.arpa.gz" "$best" "$train" "$first/best.arpa.gz"
    fi

    if at_stage 5 decoding && has_speech; then
      make_graphs
      for model in "${small[@]}"; do
        for set in "${spoken[@]}"; do first_pass "$model" "$set"; done
      done
    fi

    if at_stage 6 rescoring && has_speech; then
      for set in "${spoken[@]}"; do
        for model in "${large[@]}"; do
          lm=$(large_lm "$model")
          left_out "$lm" || rescore "$default" "$lm" "$exp/decode/default/$set" "$exp/rescore/$model/$set"
        done
      done
    fi

    if at_stage 7 "scores, table, report"; then
      for set in ${spoken[@]+"${spoken[@]}"}; do
        if [[ -n $words_step ]]; then
          mapfile -t compared < <(baselines heard)
          for model in "${small[@]}"; do score_words "$model" "$set" "${compared[@]}"; done
        fi
        mapfile -t compared < <(baselines decode)
        for model in "${small[@]}"; do score "$exp/decode/$model" "$set" "${compared[@]}"; done
        mapfile -t compared < <(baselines rescore)
        for model in "${large[@]}"; do score "$exp/rescore/$model" "$set" "${compared[@]}"; done
      done
      for model in "${small[@]}"; do perplexities "first.$model" "$(small_lm "$model")"; done
      perplexities in "$in"
      perplexities background "$background"
      for model in "${large[@]}"; do perplexities "$model" "$(large_lm "$model")"; done
    fi
  done

  if [[ $dry_run == true ]]; then
    show_plan "${exp:-data}"
    estimate_cost
    show_problems
    exit $((${#problems[@]} > 0))
  fi
  if [[ $stop_stage -eq 7 ]]; then
    mapfile -t folders < <(for part in ${parts:-.}; do echo "exp/$corpus/$part"; done)
    python3 "$mdi_root/utils/report.py" --corpus "$corpus" --synthetic "$demo" --command "$0 $*" \
      "${folders[@]%/.}" "exp/$corpus/report"
    cat "exp/$corpus/report/table.txt"
  fi
  exit
}
