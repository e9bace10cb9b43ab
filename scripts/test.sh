#!/usr/bin/env bash
# Builds kv8 and passes all of its checks and tests. Exit code 0 only if every one of them passed.
#
#   scripts/test.sh           everything, as CI runs it
#   scripts/test.sh --fast    without clang-tidy, device code, sanitizers and fuzzing
#
# One line per step as it ends, with its seconds; logs in build/test-logs/<step>.log.
set -uo pipefail
cd "$(dirname "$0")/.."

fast=
case "${1:-}" in
  "") ;;
  --fast) fast=1 ;;
  *)
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

logs=build/test-logs
mkdir -p "$logs"
passed=0
failed=0

# step NAME COMMAND...: runs it, counts it as one, shows the end of its log when it fails.
step() {
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$logs/$name.log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED  $name ($((SECONDS - start)) s); what failed in $logs/$name.log, and its end:"
    # Where several programs share a log, the failed one may stand far from the end.
    grep -nE 'FAILED|Assertion|Aborted|ERROR: |SUMMARY: |runtime error|error:' "$logs/$name.log" | tail -n 20
    tail -n 20 "$logs/$name.log"
    return 1
  fi
}

# tests NAME COMMAND...: as step, but counts the tests inside by the closing line of ctest or
# unittest. A run that says no number at all counts as one failure.
tests() {
  local name=$1 start=$SECONDS status=0 total bad
  shift
  "$@" >"$logs/$name.log" 2>&1 || status=$?
  read -r total bad < <(awk '
    /tests passed, [0-9]+ tests failed out of [0-9]+/ { bad = $4; total = $NF; seen = 1 }
    /^Ran [0-9]+ tests? in/ { total = $2; seen = 1 }
    /^FAILED \(/ { for (i = 2; i <= NF; ++i) if ($i ~ /(failures|errors)=/) { split($i, part, /[=,)]/); bad += part[2] } }
    END { if (seen) print total, bad + 0; else print 1, 1 }' "$logs/$name.log")
  if [[ $status -ne 0 && $bad -eq 0 ]]; then bad=1; fi
  passed=$((passed + total - bad))
  failed=$((failed + bad))
  if [[ $status -eq 0 ]]; then
    echo "ok      $name: $total tests ($((SECONDS - start)) s)"
    grep -E 'tests passed|^Total Test time' "$logs/$name.log"
  else
    echo "FAILED  $name: $bad of $total tests ($((SECONDS - start)) s); the end of $logs/$name.log:"
    tail -n 60 "$logs/$name.log"
  fi
}

# build PRESET TARGET...
build() {
  local preset=$1
  shift
  cmake --preset "$preset" && cmake --build --preset "$preset" --target "$@"
}

# Programs that sanitizers run: every one that a CMakeLists.txt declares, but those of golden values, which
# take them minutes, and those that need a GPU. Of these programs they leave out the tests named Long*.
mapfile -t address_programs < <(grep -rhoP 'kv8_test\(\K\w+' tests --include=CMakeLists.txt \
  --exclude-dir=golden --exclude-dir=cuda | grep -v device_lost | sort)

# run_shard PRESET FILTER NAME...: test programs of a preset; all must pass.
run_shard() {
  local preset=$1 filter=$2 name
  shift 2
  for name in "$@"; do
    "$(find "build/$preset/tests" -name "$name" -type f -perm -u+x)" --gtest_brief=1 \
      --gtest_filter="$filter" || return 1
  done
}

# run_programs SHARDS PRESET FILTER NAME...: the same, with each program's tests dealt to as many
# processes.
run_programs() {
  local shards=$1 i status=0 jobs=()
  shift
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i run_shard "$@" &
    jobs+=($!)
  done
  for i in "${jobs[@]}"; do wait "$i" || status=1; done
  return "$status"
}

finish() {
  echo "kv8: $passed passed, $failed failed ($SECONDS s)"
  [[ $failed -eq 0 ]]
  exit
}

# Has the clients' packages once scripts/setup.sh --python has run; their tests are skipped without.
client_python=python3
[[ -x .venv/bin/python ]] && client_python=.venv/bin/python

# The build step of a part is a condition of its tests; a broken one is counted once.
step setup scripts/setup.sh --dev || finish
step format scripts/check_format.sh
step layers scripts/check_layers.py
step sizes scripts/check_sizes.py
step spec scripts/check_spec.py
tests scripts python3 -m unittest discover --start-directory tests/scripts --pattern '*_test.py'
if step release-build build release all; then
  tests release ctest --preset release --parallel "$(nproc)"
  tests command-line python3 -m unittest discover --start-directory tests/cli --pattern '*_test.py'
  tests server python3 -m unittest discover --start-directory tests/server --pattern '*_test.py'
  tests page python3 -m unittest discover --start-directory tests/page --pattern '*_test.py'
  tests clients "$client_python" -m unittest discover --start-directory tests/clients --pattern '*_test.py'
fi
if [[ -z $fast ]]; then
  step tidy scripts/check_tidy.sh
  # The compiler that still has sm_70 comes from PyPI: without a network there is none to check with.
  if scripts/compile_device.py --fetch >"$logs/device-compiler.log" 2>&1; then
    step device-code scripts/compile_device.py --report docs/kernels/cuda-resources.md --check
  else
    echo "skipped device-code: no compiler; the end of $logs/device-compiler.log:"
    tail -n 5 "$logs/device-compiler.log"
  fi
  step asan-build build fuzz fuzz/all "${address_programs[@]}" &&
    step asan run_programs "$(nproc)" fuzz '-Long*' "${address_programs[@]}" &&
    step fuzz scripts/fuzz.sh 10
  # Where threads meet. One process at a time: idle threads spin.
  step tsan-build build tsan base_test engine_test server_test &&
    step tsan run_programs 1 tsan '*' base_test server_test &&
    step tsan-engine run_programs 1 tsan 'Schedule.*' engine_test
fi
finish
