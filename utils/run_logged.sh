#!/usr/bin/env bash
# Runs a command and keeps a log of it: the command, when it began and ended, everything that it printed (which is
# printed here too), its exit code, which is also that of this script.
# Usage: utils/run_logged.sh LOG COMMAND...
set -euo pipefail
log=$1
shift
mkdir -p "$(dirname "$log")"
mdi_log=$(cd "$(dirname "$log")" && pwd)/$(basename "$log")
export mdi_log
began=$SECONDS
printf '# %s\n# in %s, began %s\n' "${*@Q}" "$PWD" "$(date '+%F %T')" > "$log"
set +e
# standard output and standard error stay two; tee goes on after Ctrl-C, to the last word of the command
{
  "$@" 2>&1 1>&3 3>&- | tee -ia "$log" >&2
  exit "${PIPESTATUS[0]}"
} 3>&1 | tee -ia "$log"
code=${PIPESTATUS[0]}
printf '# ended %s after %d s, exit code %d\n' "$(date '+%F %T')" $((SECONDS - began)) "$code" >> "$log"
[[ $code -eq 0 ]] || echo "exit code $code; its log: $log" >&2
exit "$code"
