# shellcheck shell=bash
# The way to Kaldi: its programs, a command in one of its recipes, and whether its lattices are there. Source it after
# utils/script_common.sh.

# find_kaldi: the programs of Kaldi on PATH, as far as KALDI_ROOT or the recipe's path.sh say where they are
find_kaldi() {
  local folder
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
}

# need_kaldi PROGRAM...: Kaldi's programs on PATH, and in egs_dir a recipe with utils/
need_kaldi() {
  local program lacking=()
  find_kaldi
  egs_dir=${egs_dir:-${KALDI_ROOT:+$KALDI_ROOT/egs/wsj/s5}}
  [[ -n $egs_dir && -d $egs_dir/utils ]] \
    || fail "no recipe of Kaldi with utils/ in '${egs_dir:-}'; set KALDI_ROOT or --egs-dir, or use --backend mdi"
  egs_dir=$(cd "$egs_dir" && pwd)
  for program in "$@"; do
    command -v "$program" > /dev/null || lacking+=("$program")
  done
  [[ ${#lacking[@]} -eq 0 ]] \
    || fail "not on PATH: ${lacking[*]}; set KALDI_ROOT to a built Kaldi, or use --backend mdi"
}

# in_egs COMMAND...: in the recipe, with its own path.sh; not with our input, which may be a list that we are going
# through
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

# check_lattices DIR N: a missing program in a pipe, or a model that fits no lattice, leaves empty archives behind and
# exit code 0
check_lattices() {
  local n
  for ((n = 1; n <= $2; n++)); do
    [[ -s $1/lat.$n.gz ]] || fail "$1/lat.$n.gz was not written${mdi_log:+; see $mdi_log}"
    # not a pipe: head is done long before gzip is, which pipefail would take for a failure
    [[ -n $(head -c 1 < <(gzip -cd "$1/lat.$n.gz")) ]] || fail "$1/lat.$n.gz holds no lattice${mdi_log:+; see $mdi_log}"
  done
}

# run_jobs [JOB=1:N] LOG COMMAND...: by $cmd, which is in the recipe's utils/ or on PATH: run.pl, queue.pl, slurm.pl,
# retry.pl with options. Where there is no Kaldi, run.pl is utils/run_jobs.sh. Paths must be absolute.
# shellcheck disable=SC2154  # cmd is an option of whoever calls this, mdi_root is utils/script_common.sh's
run_jobs() {
  local options
  read -ra options <<< "$cmd"
  find_kaldi
  egs_dir=${egs_dir:-${KALDI_ROOT:+$KALDI_ROOT/egs/wsj/s5}}
  if [[ -n $egs_dir && -d $egs_dir/utils ]]; then
    in_egs "${options[@]}" "$@"
  elif command -v "${options[0]}" > /dev/null; then
    "${options[@]}" "$@" < /dev/null
  elif [[ ${options[0]} == run.pl ]]; then
    "$mdi_root/utils/run_jobs.sh" "$@" < /dev/null
  else
    fail "--cmd ${options[0]} is neither in a recipe's utils/ nor on PATH; set KALDI_ROOT or --egs-dir"
  fi
}
