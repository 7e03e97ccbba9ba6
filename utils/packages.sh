# shellcheck shell=bash
# The Python packages that a run needs. Source it after utils/script_common.sh.
# shellcheck disable=SC2154

# needed_extra: of pyproject.toml, what this run needs
needed_extra() {
  local extras=()
  if [[ $demo == true ]]; then
    extras=(demo)
  elif [[ -n $recorded ]]; then
    extras=("$recorded")
  else
    [[ -z $data_dir$lattice_dir$recipe ]] || extras+=(speech)
    [[ -z $case || -n $background_lm ]] || extras+=(text)
  fi
  [[ -z $cluster ]] || extras+=(cluster)
  (IFS=, && echo "${extras[*]}")
}

# lacking_packages EXTRA: those of the extra (text, speech or demo, see pyproject.toml) that python3 does not find, and
# mdi itself
lacking_packages() {
  local modules=(mdi pandas tqdm matplotlib jinja2 tabulate)
  [[ $1 != *text* && $1 != *demo* ]] || modules+=(num2words)
  [[ $1 != *speech* && $1 != *demo* ]] || modules+=(pywrapfst kaldifst kaldi_decoder pocketsphinx kaldialign kaldiio soundfile)
  [[ $1 != *demo* ]] || modules+=(ttspico)
  [[ $1 != *dialogue* && $1 != *prompts* ]] || modules+=(vosk soundfile num2words kaldialign kaldiio)
  [[ $1 != *prompts* ]] || modules+=(G722)
  [[ $1 != *cluster* ]] || modules+=(distributed dask_jobqueue)
  command -v mdi > /dev/null || echo mdi
  python3 -c 'import sys
from importlib.util import find_spec
print(*(name for name in sys.argv[1:] if find_spec(name) is None))' "${modules[@]}" 2> /dev/null || echo python3
}

# install_packages EXTRA: unless they are there. Where the synthesiser cannot be compiled the demo does without speech
# (speech=false).
install_packages() {
  local extra=$1
  if [[ -z $(lacking_packages "$extra") ]]; then return; fi
  # by itself first, so that a failure ends nothing
  if [[ $extra == demo* ]] && ! bash -euo pipefail -c '. "$1/utils/setup.sh" "$2"' bash "$mdi_root" "$extra"; then
    echo "$script_name: speech synthesis cannot be installed (see above): perplexities only" >&2
    extra=${extra/demo/text}
    # shellcheck disable=SC2034  # run.sh reads it
    speech=false
  fi
  # shellcheck source=utils/setup.sh
  . "$mdi_root/utils/setup.sh" "$extra"
}
