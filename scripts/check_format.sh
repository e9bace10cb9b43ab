#!/usr/bin/env bash
# Checks that every C++ file is as clang-format writes it. With --fix, rewrites them.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(--dry-run --Werror)
[[ "${1:-}" == "--fix" ]] && mode=(-i)
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' '*.cuh' |
  xargs -0 -P "$(nproc)" -n 20 clang-format "${mode[@]}"
