# shellcheck shell=bash
# What the speech steps share: messages, options, and the way to mdi and to Kaldi. Source it after `set -euo pipefail`.

step_name=steps/$(basename "$0")
mdi_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  echo "$step_name: $1" >&2
  exit "${2:-1}"
}

# parse_options "name other-name ..." "$@": sets name, other_name ... from --name VALUE; what is left is in the array `arguments`
parse_options() {
  local known=" $1 " name
  shift
  while [[ ${1:-} == --* ]]; do
    name=${1#--}
    if [[ $name == help ]]; then
      usage
      exit 0
    fi
    [[ $known == *" $name "* ]] || fail "no option $1; see --help" 2
    [[ $# -ge 2 ]] || fail "$1 needs a value; see --help" 2
    printf -v "${name//-/_}" '%s' "$2"
    shift 2
  done
  # shellcheck disable=SC2034  # the scripts read it
  arguments=("$@")
}

# the same file, wherever a script goes
absolute() {
  if [[ $1 == /* ]]; then echo "$1"; else echo "$PWD/$1"; fi
}

need_files() {
  local file
  for file in "$@"; do [[ -r $file ]] || fail "$file: no such file, or it cannot be read"; done
}

need_mdi() {
  # shellcheck source=utils/setup.sh
  command -v mdi > /dev/null || . "$mdi_root/utils/setup.sh" speech
}

# need_kaldi PROGRAM...: Kaldi's programs on PATH, and in egs_dir a recipe with utils/
need_kaldi() {
  local program folder
  if [[ -z ${KALDI_ROOT:-} && -f ${egs_dir:-}/path.sh ]]; then # the recipe knows where Kaldi is
    # shellcheck disable=SC1091
    KALDI_ROOT=$(
      set +eu
      cd "$egs_dir" && . ./path.sh > /dev/null
      cd "${KALDI_ROOT:-/nowhere}" && pwd
    ) || KALDI_ROOT=""
    export KALDI_ROOT
  fi
  if [[ -n ${KALDI_ROOT:-} ]]; then
    for folder in "$KALDI_ROOT"/src/*bin "$KALDI_ROOT/tools/openfst/bin"; do
      if [[ -d $folder ]]; then PATH=$PATH:$folder; fi
    done
    export PATH
  fi
  egs_dir=${egs_dir:-${KALDI_ROOT:+$KALDI_ROOT/egs/wsj/s5}}
  [[ -n $egs_dir && -d $egs_dir/utils ]] \
    || fail "no recipe of Kaldi with utils/ in '${egs_dir:-}'; set KALDI_ROOT or --egs-dir, or use --backend mdi"
  egs_dir=$(cd "$egs_dir" && pwd)
  for program in "$@"; do
    command -v "$program" > /dev/null || fail "$program is not on PATH; set KALDI_ROOT to a built Kaldi, or use --backend mdi"
  done
}

# runs a command in the recipe, with its own path.sh; not with our input, which may be a list that we are going through
in_egs() {
  (
    cd "$egs_dir" || exit 1
    export PATH=$PWD/utils:$PATH LC_ALL=C
    set +u # Kaldi's scripts are not made for it
    # shellcheck disable=SC1091
    if [[ -f path.sh ]]; then . ./path.sh; fi
    "$@" < /dev/null
  )
}

# check_lattices DIR N: a missing program in a pipe, or a model that fits no lattice, leaves empty archives behind and exit code 0
check_lattices() {
  local n
  for ((n = 1; n <= $2; n++)); do
    [[ -s $1/lat.$n.gz ]] || fail "$1/lat.$n.gz was not written; see $1/log"
    # not a pipe: head is done long before gzip is, which pipefail would take for a failure
    [[ -n $(head -c 1 < <(gzip -cd "$1/lat.$n.gz")) ]] || fail "$1/lat.$n.gz holds no lattice; see $1/log"
  done
}
