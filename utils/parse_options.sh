# shellcheck shell=bash
# Options, as with Kaldi's parse_options.sh: a variable that a script declares above its call of parse_options, in a
# line such as
#     nj=2  # jobs at a time
# is the option --nj, its default and its line in --help, which begins with the comment at the top of the script. Among
# the declarations a comment that begins a line is a heading, and an indented one goes on with the option above it. Where
# `schema` names a file of such declarations, these are options too, which --help names without their lines.

# declared_options SCRIPT: their names, with blanks around each
declared_options() {
  echo " $(sed -n '/^parse_options /q; s/^\([a-z][a-z0-9_]*\)=.*  # .*/\1/p' ${schema:+"$schema"} "$1" | tr '\n' ' ')"
}

# set_option OPTION NAME VALUE: where there was true or false, or a number, there must be one again: bash would take
# other text for an expression, and an expression may run commands
set_option() {
  if [[ ${!2} == true || ${!2} == false ]]; then
    [[ $3 == true || $3 == false ]] || fail "$1 $3; expected true or false" 2
  elif [[ ${!2} =~ ^[0-9]+$ ]]; then
    [[ $3 =~ ^[0-9]+([.-][0-9]+)*$ ]] || fail "$1 $3; expected a number, such as ${!2}" 2
  fi
  printf -v "$2" '%s' "$3"
}

# read_settings FILE: sets the variables from lines 'name=value', or name="some values", several on a line if need be;
# name+=... adds to it. The file is data: nothing in it is expanded or run.
read_settings() {
  local declared name line number=0 at
  declared=$(declared_options "${BASH_SOURCE[1]}")
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1)) at="$1:$number: '$line'"
    while [[ $line =~ ^[[:space:]]*([^[:space:]#].*)$ ]]; do
      line=${BASH_REMATCH[1]}
      [[ $line =~ ^([a-z][a-z0-9_]*)(\+?)=(\"([^\"]*)\"|([^][:space:]\"\'\;\&\|\<\>\(\)#[]*))([[:space:]].*)?$ \
        && $line != *[\`\$\\]* ]] \
        || fail "$at; expected settings, name=value: no command, nothing that a shell would expand"
      name=${BASH_REMATCH[1]} line=${BASH_REMATCH[6]}
      [[ $declared == *" $name "* ]] || fail "$at; no option --${name//_/-}; see --help"
      if [[ ${BASH_REMATCH[2]} == + ]]; then
        printf -v "$name" '%s' "${!name}${BASH_REMATCH[4]}${BASH_REMATCH[5]}"
      else
        set_option "$at; --${name//_/-}" "$name" "${BASH_REMATCH[4]}${BASH_REMATCH[5]}"
      fi
    done
  done < "$1"
}

# whole_number FILE: the number in a file, and nothing else
whole_number() {
  local number
  number=$(< "$1")
  [[ $number =~ ^[0-9]{1,6}$ ]] || fail "$1: '${number:0:40}'; expected a whole number"
  echo "$number"
}

# parse_options "$@": sets the variables; what is left is in the array `arguments`
parse_options() {
  local declared name
  declared=$(declared_options "${BASH_SOURCE[1]}")
  while [[ ${1:-} == --* ]]; do
    name=${1#--}
    name=${name//-/_}
    if [[ $name == help ]]; then
      print_help "${BASH_SOURCE[1]}"
      [[ -z ${schema:-} ]] || printf '\nEvery setting of %s is an option, too.\n' "${schema#"$mdi_root"/}"
      exit 0
    fi
    [[ $declared == *" $name "* ]] || fail "no option $1; see --help" 2
    [[ $# -ge 2 ]] || fail "$1 needs a value; see --help" 2
    set_option "$1" "$name" "$2"
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
