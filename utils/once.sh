# shellcheck shell=bash
# Work that is done once: what exists is not made again unless its inputs or its command have changed. Source after utils/step.sh.

# once OUT [INPUT...] -- COMMAND...: runs the command, which makes OUT, unless the same command made it from the same inputs.
# The record of that, .OUT.made, appears when the command is through: a run that was killed begins the command again.
once() {
  local out=$1 input inputs=() record command
  shift
  while [[ $1 != -- ]]; do
    inputs+=("$1")
    shift
  done
  shift
  record=$(dirname "$out")/.$(basename "$out").made
  # where our scripts lie is no reason to do the work again
  command="${*//"$mdi_root"\//}"
  if [[ -e $out && -e $record && $(< "$record") == "$command" ]]; then
    local stale=""
    for input in ${inputs[@]+"${inputs[@]}"}; do
      if [[ $input -nt $record ]]; then stale=$input; fi
    done
    if [[ -z $stale ]]; then
      echo "up to date: $out" >&2
      return
    fi
    echo "$stale is newer than $out" >&2
  fi
  mkdir -p "$(dirname "$out")"
  rm -f "$record"
  # written now, so that an input that changes while the command runs is newer
  printf '%s\n' "$command" > "$record.tmp"
  "$@"
  [[ -e $out ]] || fail "$out was not made by: $command"
  mv -- "$record.tmp" "$record"
}

# captured OUT COMMAND...: the command's standard output in a file that appears whole
captured() {
  local out=$1
  shift
  "$@" > "$out.tmp"
  mv -- "$out.tmp" "$out"
}

# need STAGE FILE...: the files must be there; says which stage makes them
need() {
  local stage=$1 file
  shift
  for file in "$@"; do
    [[ -e $file ]] || fail "$file is missing; stage $stage makes it: run this again with --stage $stage"
  done
}
