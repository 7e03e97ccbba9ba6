#!/usr/bin/env bash
# Kaldi's run.pl where there is no Kaldi: runs a command as numbered jobs, all at a time, each with its log.
# Usage: utils/run_jobs.sh [--max-jobs-run N] [JOB=1:N] LOG COMMAND...
# JOB in LOG and COMMAND becomes the number. The command goes through a shell, as with Kaldi's: '|' and '&&' are its.
set -euo pipefail
most=0 name="" first=1 last=1
if [[ ${1:-} == --max-jobs-run ]]; then
  most=$2
  shift 2
fi
if [[ ${1:-} =~ ^([A-Z]+)=([0-9]+):([0-9]+)$ ]]; then
  name=${BASH_REMATCH[1]} first=${BASH_REMATCH[2]} last=${BASH_REMATCH[3]}
  shift
fi
[[ $# -ge 2 ]] || {
  echo "utils/run_jobs.sh: expected [JOB=1:N] LOG COMMAND..." >&2
  exit 2
}

one() {
  local log=$1 code=0
  mkdir -p "$(dirname "$log")"
  printf '# %s\n# began %s\n' "$2" "$(date '+%F %T')" > "$log"
  bash -c "set -o pipefail; $2" >> "$log" 2>&1 < /dev/null || code=$?
  printf '# ended (code %d) %s\n' "$code" "$(date '+%F %T')" >> "$log"
  return "$code"
}

log=$1
shift
command=""
for word in "$@"; do
  if [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ || $word =~ ^([|<>]|\&\&|\|\||2\>\&1|\;)$ ]]; then
    command+="$word "
  else
    command+="$(printf '%q' "$word") "
  fi
done
pids=() logs=()
for ((n = first; n <= last; n++)); do
  if [[ $most -gt 0 && ${#pids[@]} -ge $most ]]; then wait "${pids[n - first - most]}" || true; fi
  if [[ -n $name ]]; then mine=${log//$name/$n} run=${command//$name/$n}; else mine=$log run=$command; fi
  one "$mine" "$run" &
  pids+=($!) logs+=("$mine")
done
failed=0
for i in "${!pids[@]}"; do
  wait "${pids[i]}" || {
    failed=$((failed + 1))
    [[ $failed -gt 1 ]] || echo "utils/run_jobs.sh: a job failed; its log: ${logs[i]}" >&2
  }
done
[[ $failed -eq 0 ]]
