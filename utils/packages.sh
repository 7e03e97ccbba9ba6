# shellcheck shell=bash
# The Python packages that a run needs. Source it after utils/script_common.sh.
# shellcheck disable=SC2154

# needed_extra: of pyproject.toml, what this run needs
needed_extra() {
  local extras=()
  if [[ -n $recorded ]]; then
    extras=("$recorded")
  elif [[ $backend == vosk ]]; then
    extras=(dialogue)
  elif [[ -n $lattice_dir$recipe || $tiny == true ]]; then
    extras=(speech)
  fi
  [[ $demo == false && (-z $case || -n $background_lm) ]] || extras+=(text)
  [[ -z $cluster ]] || extras+=(cluster)
  (IFS=, && echo "${extras[*]}")
}

# lacking_packages EXTRA: those of the extras (see pyproject.toml) that python3 does not find, and mdi itself
lacking_packages() {
  local modules=(mdi pandas tqdm matplotlib jinja2 tabulate)
  [[ $1 != *text* ]] || modules+=(num2words)
  [[ $1 != *speech* ]] || modules+=(kaldialign)
  [[ $1 != *dialogue* && $1 != *prompts* ]] || modules+=(vosk soundfile scipy num2words kaldialign)
  [[ $1 != *prompts* ]] || modules+=(G722)
  [[ $1 != *cluster* ]] || modules+=(distributed dask_jobqueue)
  command -v mdi > /dev/null || echo mdi
  # in this package's own directory: Python looks for modules in the current one first, and what lies there is data
  (cd "$mdi_root" && python3 -c 'import sys
from importlib.util import find_spec
print(*(name for name in sys.argv[1:] if find_spec(name) is None))' "${modules[@]}" 2> /dev/null) || echo python3
}

# install_packages EXTRA: unless they are there
install_packages() {
  if [[ -z $(lacking_packages "$1") ]]; then return; fi
  # shellcheck source=utils/setup.sh
  . "$mdi_root/utils/setup.sh" "$1"
}
