#!/usr/bin/env bash
# Builds the fuzz targets (clang) and runs each for some seconds from its stored corpus, as many at
# once as there are cores.
#
#   scripts/fuzz.sh [SECONDS]     default 20
#
# New inputs go to build/fuzz/found/<target>; an input that fails is left in build/fuzz/crashes.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-20}
cmake --preset fuzz >/dev/null
# Not the whole tree: the fuzz targets and what they link.
cmake --build --preset fuzz --target fuzz/all
mkdir -p build/fuzz/crashes

run_one() {
  local target=$1 log=build/fuzz/$1.log
  mkdir -p "build/fuzz/found/$target"
  # -timeout: one input must not hang a parser; -rss_limit_mb: nor make it allocate without bound.
  if build/fuzz/fuzz/"$target" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 \
    -artifact_prefix="build/fuzz/crashes/$target-" -print_final_stats=1 \
    "build/fuzz/found/$target" "fuzz/corpus/$target" >"$log" 2>&1; then
    echo "fuzz $target: passed, $(awk '/number_of_executed_units/{print $2}' "$log") inputs"
  else
    echo "fuzz $target: FAILED, see $log"
    tail -n 20 "$log"
    return 1
  fi
}
export -f run_one
export seconds

find fuzz/corpus -mindepth 1 -maxdepth 1 -type d -printf '%f\0' | sort -z |
  xargs -0 -P "$(nproc)" -I{} bash -c 'run_one {}'
