#!/usr/bin/env bash
# Lint, types and tests, in a virtual environment that this script makes itself.
#   utils/run_tests.sh [--quick | --lint | --coverage] [pytest options]
# --quick leaves out what takes more than a few seconds: under a minute instead of some ten. --lint tests nothing.
# --coverage also prints which share of mdi/ the tests run (but for compiled kernels and other processes).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=utils/setup.sh
. utils/setup.sh test
chosen=() only_lint=false
case ${1:-} in
  --quick) chosen=(-m "not slow") && shift ;;
  --coverage) chosen=(--cov=mdi --cov-report=term:skip-covered) && shift ;;
  --lint) only_lint=true ;;
esac

ruff check .
ruff format --check .
mypy
mapfile -t scripts < <(
  find . -path ./.venv -prune -o -path ./.git -prune -o -type f \( -name '*.sh' -o -path './.ci/run' \) -print
)
shellcheck -x "${scripts[@]}"
if [[ $only_lint == true ]]; then exit; fi
# file by file, so that what a file's tests share is made once; a container may have fewer cores than it shows, and each
# process takes half a gigabyte
cores=$(nproc 2> /dev/null || echo 2)
python3 -m pytest --numprocesses "$((cores < 4 ? cores : 4))" --dist loadfile ${chosen[@]+"${chosen[@]}"} "$@"
