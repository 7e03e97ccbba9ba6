#!/usr/bin/env bash
# Stage 0: local/prepare_data.sh fills a directory, which is then checked; DIR/prepared says that both went well.
# Usage: utils/prepare_and_validate.sh --parts "PART ..." DIR OPTION... (of local/prepare_data.sh)
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/script_common.sh"

parts=""  # directories of DIR to check; DIR itself if empty
parse_options "$@"
dir=${arguments[0]}
log_to "$dir/log/prepare_and_validate.log"
"$mdi_root/local/prepare_data.sh" "${arguments[@]:1}" "$dir"
for part in ${parts:-.}; do "$mdi_root/utils/validate_data.sh" "$dir/$part"; done
touch "$dir/prepared"
