# shellcheck shell=bash
# Work that is done once: what is there is not made again unless its inputs or its command have changed. Source it after
# utils/script_common.sh. With dry_run=true it makes nothing; show_plan says what would be made.
# shellcheck disable=SC2154

# in a dry run: what an earlier command would have made; and since the last show_plan
declare -A to_be_made=()
planned=() fresh=()

# make_once OUT... from INPUT... by COMMAND...: runs the command, which makes every OUT, unless the same command has
# made all of them from the same inputs (files, or directories with all that is in them). The record of that, .OUT.made,
# appears when the command is through: after kill -9 it is run again. What it prints also goes into the directory log
# beside OUT, and never to standard output.
make_once() {
  local outs=() inputs=() out record state reason log
  while [[ $1 != from ]]; do
    outs+=("$1")
    shift
  done
  shift
  while [[ $1 != by ]]; do
    inputs+=("$1")
    shift
  done
  shift
  need "${inputs[@]}"
  record=$(dirname "${outs[0]}")/.$(basename "${outs[0]}").made
  state=$(state_of "$*" "${inputs[@]}")
  if ! reason=$(why_make "$record" "$state" "${outs[@]}"); then
    [[ $dry_run == true ]] || echo "up to date: ${outs[*]}" >&2
    fresh+=("${outs[@]}")
    return
  fi
  if [[ $dry_run == true ]]; then
    for out in "${outs[@]}"; do to_be_made[$out]=yes; done
    planned+=("${outs[@]}")
    [[ -z $reason ]] || planned[-1]+=" ($reason)"
    return
  fi
  [[ -z $reason ]] || echo "making ${outs[0]} again: $reason" >&2
  mkdir -p "$(dirname "${outs[0]}")"
  rm -f "$record"
  # written now, so that the next run notices an input that changes while the command runs
  printf '%s\n' "$state" > "$record.tmp"
  log=$(log_of "${#outs[@]}" "${outs[0]}" "$@")
  "$mdi_root/utils/run_logged.sh" "$log" "$@" >&2
  for out in "${outs[@]}"; do [[ -e $out ]] || fail "$out was not made; see $log"; done
  mv -- "$record.tmp" "$record"
}

# there FILE: it is, or in a dry run it would be
there() { [[ -e $1 ]] || coming "$1"; }

# coming FILE: in a dry run, an earlier command would have made it; stage 0 makes everything in data/
coming() { [[ -n ${to_be_made[$1]:-} || ($1 == data/* && -n ${to_be_made[data/$corpus/prepared]:-}) ]]; }

# need FILE...: they must be there; names the one that is made first, and the stage that makes it (stage_of of
# utils/experiment.sh)
need() {
  local file lacking=() message
  for file in "$@"; do
    if ! there "$file"; then lacking+=("$(stage_of "$file") $file"); fi
  done
  if [[ ${#lacking[@]} -eq 0 ]]; then return; fi
  file=$(printf '%s\n' "${lacking[@]}" | sort -s -k 1,1 | awk 'NR == 1')
  message="${file#* } is missing"
  [[ $file == " "* ]] || message+="; stage ${file%% *} makes it: run this again with --stage ${file%% *}"
  [[ $dry_run == true ]] || fail "$message"
  # as if they were there: what comes after them is of interest too; what stage 0 reads has been looked for already
  [[ $file == " "* ]] || problems+=("$message")
  for file in "${lacking[@]}"; do to_be_made[${file#* }]=yes; done
}

# show_plan FOLDER: what make_once was called for since the last time, without the directory that all of it is in
show_plan() {
  show_files "to be made:" "$1" ${planned[@]+"${planned[@]}"}
  show_files "up to date:" "$1" ${fresh[@]+"${fresh[@]}"}
  planned=() fresh=()
}

show_files() {
  local files=("${@:3}")
  if [[ ${#files[@]} -eq 0 ]]; then return; fi
  files=("${files[@]#"$2"/}")
  files=("${files[@]/\/num_jobs/}") # it stands for its directory
  echo "  $1 ${files[*]/\/scoring_kaldi\/best_wer/}" >&2
}

# state_of COMMAND INPUT...: what a result depends on: its command, and the size and time of every input
state_of() {
  local input
  # where our scripts lie, or how many jobs run at a time, is no reason to do the work again
  sed -E 's/ --nj [0-9]+//' <<< "${1//"$mdi_root"\//}"
  for input in "${@:2}"; do
    if coming "$input"; then
      echo "$input, which is to be made"
    elif [[ -d $input ]]; then
      find -L "$input" -type f -printf '%p %s %T@\n' | LC_ALL=C sort
    else
      stat -L -c '%n %s %.9Y' -- "$input"
    fi
  done
}

# why_make RECORD STATE OUT...: false if every OUT is there and was made in this state; prints what has changed, if
# something has
why_make() {
  local record=$1 state=$2 out before
  for out in "${@:3}"; do [[ -e $out ]] || return 0; done
  [[ -e $record ]] || return 0
  before=$(< "$record")
  [[ $before != "$state" ]] || return 1
  if [[ ${before%%$'\n'*} != "${state%%$'\n'*}" ]]; then
    echo "another command or another option"
  else # the first 'file size time' that is new, or that is gone; what is to be made has been named already
    { comm -13 <(sort <<< "$before") <(sort <<< "$state") && comm -23 <(sort <<< "$before") <(sort <<< "$state"); } \
      | sed 's/ [0-9.]* [0-9.]*$/ has changed/' | awk 'NR == 1 && !/, which is to be made$/'
  fi
}

# log_of NUMBER OUT COMMAND...: a model's log has its name, any other one that of the command
log_of() {
  local folder name program
  folder=$(dirname "$2") name=$(basename "$2")
  program=$3
  [[ $program != mdi ]] || program=$4
  case $1:$name in
    1:*.arpa.gz | 1:*.jsonl) name=${name%.arpa.gz} name=${name%.jsonl} ;;
    *) name=$(basename "$program" .sh) ;;
  esac
  echo "${folder%/scoring_kaldi}/log/$name.log"
}

# lock_folder FOLDER OTHER...: one run at a time in these; the jobs of a run that was killed keep the lock until they
# have ended
lock_folder() {
  local folder
  mkdir -p "$1" 2> /dev/null || fail "cannot make $1 in $PWD; run this in a directory that you may write to"
  if ! command -v flock > /dev/null; then return; fi
  exec 9> "$1/.lock"
  if ! flock -n 9; then
    echo "$script_name: another run is at work in $1 (or what it started is); waiting for it to end" >&2
    flock 9
  fi
  # nobody else is at work here: temporary files are those of a run that was killed
  for folder in "$@"; do
    if [[ -d $folder ]]; then find "$folder" -name '.*.tmp' -type f -delete; fi
  done
}
