#!/usr/bin/env bash
# Makes the virtual environment and installs this package in it, once; prints nothing when there is nothing to do.
#
#   . utils/setup.sh [extra]     sets PATH so that `mdi` and its python3 are found; extra: of pyproject.toml, as test
#
# MDI_VENV names another place for the environment (default: .venv beside this package), MDI_PYTHON another Python.

mdi_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mdi_venv=${MDI_VENV:-$mdi_root/.venv}
[[ $mdi_venv == /* ]] || mdi_venv=$PWD/$mdi_venv
mdi_extra=${1:-}
# sourced without an argument, it sees those of whoever sources it
[[ ,$mdi_extra =~ ^(,(speech|text|openfst|vosk|dialogue|prompts|report|cluster|test))+$ ]] || mdi_extra=""

mdi_setup() {
  local stamp=$mdi_venv/.installed${mdi_extra:+-$mdi_extra} owner=$mdi_venv/.installed-from python made
  local compiled=$mdi_venv/.compiled
  # an environment holds one clone of this package: another one would replace it for everybody who uses it
  if [[ -f $owner && $(< "$owner") != "$mdi_root" ]]; then
    echo "utils/setup.sh: $mdi_venv is the environment of $(< "$owner"), not of $mdi_root; set MDI_VENV to another \
directory, unset it, or remove $mdi_venv if that clone is no more" >&2
    return 1
  fi
  for made in "$stamp" "$mdi_venv/.installed-test"; do # what the tests need is all there is
    if [[ -f $made && ! $mdi_root/pyproject.toml -nt $made ]]; then return; fi
  done
  for python in ${MDI_PYTHON:+"$MDI_PYTHON"} python3.13 python3.12 python3.11 python3.10 python3 ""; do
    if [[ -z $python ]]; then
      echo "utils/setup.sh: expected Python 3.10 or newer on PATH; found $(python3 --version 2> /dev/null || echo none). \
Install one, or name it: MDI_PYTHON=/path/to/python3" >&2
      return 1
    fi
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then break; fi
  done
  if ! "$python" -c 'import venv, ensurepip' 2> /dev/null; then
    echo "utils/setup.sh: $("$python" --version) has no venv or pip; install them (Debian, Ubuntu: apt-get install \
python3-venv)" >&2
    return 1
  fi
  local begun=$SECONDS
  echo "setting up $mdi_venv with $("$python" --version): once, one to three minutes; no compiler is needed" >&2
  [[ -x $mdi_venv/bin/python3 ]] || "$python" -m venv "$mdi_venv" || return 1
  echo "$mdi_root" > "$owner"
  echo "1. installing packages ($(sed -n 's/^name = "\(.*\)"/\1/p' pyproject.toml)[report${mdi_extra:+,$mdi_extra}])" >&2
  "$mdi_venv/bin/python3" -m pip install --quiet --disable-pip-version-check \
    --editable "${mdi_root}[report${mdi_extra:+,$mdi_extra}]" >&2 || {
    echo "utils/setup.sh: pip could not install what is named above: is there a network, a package index that it knows, \
and room on the disk ($(df -Ph "$mdi_venv" | awk 'NR == 2 { print $4 }') free in $mdi_venv; 2 GB are enough)? Once it is \
installed, no network is needed" >&2
    return 1
  }
  # once, whatever extras come later; what changes, the first run that needs it compiles
  if [[ ! -f $compiled || -n $(find "$mdi_root/mdi/kernels" -name '*.py' -newer "$compiled" -print -quit) ]]; then
    echo "2. compiling the kernels (half a minute on quiet cores; $((SECONDS - begun)) s so far)" >&2
    "$mdi_venv/bin/python3" -m mdi.compile >&2 || return 1
    touch "$compiled"
  fi
  echo "set up in $((SECONDS - begun)) s" >&2
  touch "$stamp"
}

# in this package's own directory: Python looks for modules in the current one first, and what lies there is data
(cd "$mdi_root" && mdi_setup) || return 1 2> /dev/null || exit 1
export PATH="$mdi_venv/bin:$PATH"
