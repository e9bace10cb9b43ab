#!/usr/bin/env bash
# Runs the short clang-tidy list (.clang-tidy) over src/ and tools/; every finding is an error.
#
#   scripts/check_tidy.sh [BASE]
#
# With BASE, a git revision, only the sources that differ from it. Needs build/release/, for the
# flags of each file.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! -f build/release/compile_commands.json ]]; then
  echo "check_tidy: build/release is not configured; run: cmake --preset release" >&2
  exit 1
fi
if [[ $# -gt 0 ]]; then
  list=(git diff --name-only -z --diff-filter=d "$1" -- 'src/*.cc' 'tools/*.cc')
else
  list=(git ls-files -z -- 'src/*.cc' 'tools/*.cc')
fi
"${list[@]}" | xargs -0 -r -P "$(nproc)" -n 4 clang-tidy -p build/release --quiet 2> >(grep -v 'warnings generated' >&2)
