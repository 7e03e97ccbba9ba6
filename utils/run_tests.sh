#!/usr/bin/env bash
# Lint and tests, in a virtual environment that this script makes itself.
#   utils/run_tests.sh [pytest options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=utils/setup.sh
. utils/setup.sh test

ruff check .
ruff format --check .
mapfile -t scripts < <(
  find . -path ./.venv -prune -o -path ./.git -prune -o -type f \( -name '*.sh' -o -path './.ci/run' \) -print
)
shellcheck -x "${scripts[@]}"
python3 -m pytest "$@"
