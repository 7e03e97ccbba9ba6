# shellcheck shell=bash
# What a run lacks, all of it at once, and what it will cost. The variables are options of run.sh. utils/experiment.sh
# sources it.
# shellcheck disable=SC2154

# find_problems: prints what is missing and puts it into the array `problems`, and into `omissions` what is done without;
# in a dry run also what would be installed
find_problems() {
  local options line lacking
  if [[ $backend == kaldi && $stop_stage -ge 5 && -n $data_dir$lattice_dir$recipe ]]; then look_for_kaldi; fi
  # at a later stage too, where the data are not there yet
  if [[ $reads_data == true || ($dry_run == true && ! -e data/$corpus/prepared) ]]; then
    mapfile -t options < <(data_options)
    while IFS= read -r line; do
      line=${line#local/prepare_data.sh: }
      if [[ $line == "left out: "* ]]; then omissions+=("${line#left out: }"); else problems+=("$line"); fi
    done < <(mdi_log=none "$mdi_root/local/prepare_data.sh" --dry-run true "${options[@]}" "data/$corpus" 2>&1 || true)
  fi
  if [[ $dry_run == false ]]; then
    show_problems
  else # which shows them at its end, with those that come up on the way
    lacking=$(lacking_packages "$(needed_extra)" | xargs)
    [[ -z $lacking ]] \
      || echo "$script_name: to be installed from a package registry, into ${MDI_VENV:-$mdi_root/.venv}: $lacking" >&2
    command -v flock > /dev/null || echo "$script_name: no program flock: do not start two runs in one directory" >&2
  fi
}

# choose_demo: recorded speech, unless a program, a package or a download that it needs cannot be had (corpus)
choose_demo() {
  local why options=(--recorded dialogue --vosk-model "$vosk_model" --game "$game") folder=data/dialogue
  corpus=demo
  if [[ ! -e $folder/prepared ]]; then
    if ! why=$(mdi_log=none "$mdi_root/local/prepare_data.sh" --dry-run true "${options[@]}" "$folder" 2>&1); then
      why=${why//local\/prepare_data.sh: /}
    elif [[ $dry_run == true ]]; then
      why=""
    elif ! download_dialogue "${options[@]}" "$folder"; then
      why="packages or files cannot be downloaded (see above)"
    fi
    if [[ -n $why ]]; then
      echo "$script_name: no recorded speech: $why" >&2
      echo "$script_name: the demo runs instead (--corpus demo); once this is settled: --corpus dialogue" >&2
      return
    fi
  fi
  corpus=dialogue
}

# download_dialogue OPTION... DIR: packages, and what local/prepare_data.sh will need; by itself, so that a failure ends
# nothing
download_dialogue() {
  # shellcheck disable=SC2016  # another shell expands them
  mdi_log=none bash -euo pipefail -c '[[ -z $1 ]] || . "$0/utils/setup.sh" dialogue
    exec "$0/local/prepare_data.sh" "${@:2}"' "$mdi_root" "$(lacking_packages dialogue)" --only-downloads true "$@"
}

# show_problems: all of them, as one message, and what is done without as another
show_problems() {
  if [[ ${#omissions[@]} -gt 0 ]]; then
    echo "$script_name: left out:" >&2
    printf '  - %s\n' "${omissions[@]}" >&2
  fi
  if [[ ${#problems[@]} -gt 0 ]]; then
    echo "$script_name: missing, or to be settled first:" >&2
    printf '  - %s\n' "${problems[@]}" >&2
  fi
}

# estimate_cost: of each part, from the prepared data, or from what stage 0 will read
estimate_cost() {
  local part options folder pair in_domain=${in_text:-$egs_dir/$train_data/text}
  for part in ${parts:-""}; do
    enter "$part"
    options=(--stage "$stage" --stop-stage "$stop_stage" --nj "$nj" --max-settings "$max_settings")
    options+=(--thresholds "$thresholds")
    if [[ -e $data/train.txt.gz ]]; then
      options+=(--in-text "$data/train.txt.gz" --background "$(compgen -G "$data/background.*.gz" | head -n 1)")
      for folder in ${spoken[@]+"${spoken[@]}"}; do options+=(--speech "$data/speech/$folder"); done
    elif [[ -e $in_domain && -e ${background_lm:-$background_text} ]]; then
      options+=(--in-text "$in_domain" --background "${background_lm:-$background_text}")
      IFS=, read -ra folders <<< "$data_dir"
      for folder in ${folders[@]+"${folders[@]}"}; do options+=(--speech "$folder"); done
      for pair in $set_data; do options+=(--speech "$egs_dir/${pair#*=}"); done
    elif [[ $demo == true ]]; then
      echo "time: 15 to 20 minutes on two cores, after the downloads" >&2
      return
    elif [[ $tiny == true ]]; then
      echo "time: about a minute on two cores" >&2
      return
    elif [[ -n $recorded ]]; then
      echo "time: 10 to 25 minutes on two cores, after the downloads, with 400 utterances and 5 models; libvosk takes 0.1" \
        "to 0.4 of the time of the speech on a core, for each of ${#small[@]} models here" >&2
      return
    else
      echo "time and memory: unknown, as there are no texts yet" >&2
      return
    fi
    [[ -z $lattice_dir$decode_dirs && ! -d $data/lattices ]] || options+=(--lattices true)
    [[ -z $case ]] || options+=(--normalize true)
    echo "time and memory of $exp:" >&2
    python3 "$mdi_root/utils/estimate_cost.py" "${options[@]}" >&2 || echo "unknown" >&2
  done
}
