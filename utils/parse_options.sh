# shellcheck shell=bash
# Options, as with Kaldi's parse_options.sh: a variable that a script declares above its call of parse_options, in a
# line such as
#     nj=2  # jobs at a time
# is the option --nj, its default and its line in --help, which begins with the comment at the top of the script. Among
# the declarations a comment that begins a line is a heading, and an indented one goes on with the option above it.

# parse_options "$@": sets the variables; what is left is in the array `arguments`
parse_options() {
  local declared name
  declared=" $(sed -n '/^parse_options /q; s/^\([a-z][a-z0-9_]*\)=.*  # .*/\1/p' "${BASH_SOURCE[1]}" | tr '\n' ' ')"
  while [[ ${1:-} == --* ]]; do
    name=${1#--}
    name=${name//-/_}
    if [[ $name == help ]]; then
      print_help "${BASH_SOURCE[1]}"
      exit 0
    fi
    [[ $declared == *" $name "* ]] || fail "no option $1; see --help" 2
    [[ $# -ge 2 ]] || fail "$1 needs a value; see --help" 2
    if [[ ${!name} == true || ${!name} == false ]]; then
      [[ $2 == true || $2 == false ]] || fail "$1 $2; expected true or false" 2
    fi
    printf -v "$name" '%s' "$2"
    shift 2
  done
  # shellcheck disable=SC2034  # the scripts read it
  arguments=("$@")
}

# need_arguments N: so many are left, or the call is shown
need_arguments() {
  # shellcheck disable=SC2154  # of parse_options
  if [[ ${#arguments[@]} -ne $1 ]]; then wrong_usage; fi
}

wrong_usage() {
  print_help "${BASH_SOURCE[-1]}" >&2
  exit 2
}

# print_help SCRIPT: the comment at its top, then its options with their defaults
print_help() {
  awk '
    function flush() {
      if (option != "") printf "  %-20s %s%s\n", option, text, value == "" ? "" : " (" value ")"
      option = ""
    }
    NR == 1 || /shellcheck/ { next }
    /^parse_options / { flush(); exit }
    !begun && /^# Usage: / { print substr($0, 3); next }
    !begun && /^#/ { sub(/^# ?/, ""); head = head $0 "\n"; next }
    !begun { printf "%s", head; begun = 1 }
    /^[a-z][a-z0-9_]*=.*  # / {
      flush()
      at = index($0, "=")
      option = "--" substr($0, 1, at - 1)
      gsub(/_/, "-", option)
      value = substr($0, at + 1)
      text = value
      sub(/.*  # /, "", text)
      value = substr(value, 1, length(value) - length(text) - 4)
      sub(/ +$/, "", value)
      gsub(/^"|"$/, "", value)
      if (value ~ /[$]/) value = ""
      next
    }
    option != "" && /^ +# / { sub(/^ +# /, ""); text = text "\n" sprintf("%23s", "") $0; next }
    /^# / && !/^# -/ { flush(); sub(/^# /, ""); print "\n" $0 }
  ' "$1"
}
