# shellcheck shell=bash
# What every script of the recipe begins with: its name, its options, its errors and its log. Source it after `set -euo
# pipefail`.

mdi_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
script=${BASH_SOURCE[-1]} # with its directory as it was called, unless that is within this package
script_name=$(cd "$(dirname "$script")" && pwd)/$(basename "$script")
script_name=${script_name#"$mdi_root"/}
command_line=("$@")
# shellcheck source=utils/parse_options.sh
. "$mdi_root/utils/parse_options.sh"
# where a log is kept, its first line is the command
[[ -n ${mdi_log:-} ]] || echo "$0 $*" >&2

fail() {
  echo "$script_name: $1" >&2
  exit "${2:-1}"
}

# log_to FILE: everything that the script prints goes into FILE too, with its command, start, end and exit code. The
# script begins again for that, unless whoever called it keeps a log already; $mdi_log is its name.
log_to() {
  [[ -n ${mdi_log:-} ]] \
    || exec "$mdi_root/utils/run_logged.sh" "$1" bash "$script" ${command_line[@]+"${command_line[@]}"}
}

# the same file, wherever a script goes
absolute() {
  if [[ $1 == /* ]]; then echo "$1"; else echo "$PWD/$1"; fi
}

need_files() {
  local file
  for file in "$@"; do [[ -r $file ]] || fail "$file: no such file, or it cannot be read"; done
}

# need_mdi [EXTRA]: with the packages of this extra of pyproject.toml, where it has to be installed
need_mdi() {
  # shellcheck source=utils/setup.sh
  command -v mdi > /dev/null || . "$mdi_root/utils/setup.sh" "${1:-speech}"
}
