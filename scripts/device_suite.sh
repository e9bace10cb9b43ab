#!/usr/bin/env bash
# Builds and runs everything that needs a GPU, and prints one table: docs/device-results.md keeps the
# last. Exit code 0 only if all passed.
#
#   scripts/device_suite.sh [--no-bench] [--no-sanitizer] [--prebuilt]
#
# --prebuilt takes the engine's test programs as they lie in build/cuda, for a machine that lacks what
# building them takes.
# Needs nvcc, the GPU and its driver; and, in build/device, the V100 code that scripts/compile_device.py
# makes on any machine. CMAKE_PREFIX_PATH may point at libraries that the machine lacks; the peer in the
# benchmark needs PyTorch. Logs go to build/device-logs.
set -uo pipefail
cd "$(dirname "$0")/.."

bench=true
sanitizer=true
prebuilt=false
for argument in "$@"; do
  case $argument in
    --no-bench) bench=false ;;
    --no-sanitizer) sanitizer=false ;;
    --prebuilt) prebuilt=true ;;
    *)
      sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
  esac
done

logs=build/device-logs
mkdir -p "$logs"
rows=()
failures=0

# step NAME COMMAND...: runs it. A skipped test counts as a failure: here nothing may be missing.
step() {
  local name=$1 start=$SECONDS result=ok count
  shift
  if ! "$@" >"$logs/$name.log" 2>&1 || grep -q '^\[  SKIPPED \]' "$logs/$name.log"; then
    result=FAILED
    failures=$((failures + 1))
    grep -nE 'error|Failure|FAILED|SKIPPED|=========' "$logs/$name.log" | head -n 40
    tail -n 25 "$logs/$name.log"
  fi
  count=$(awk '/^\[  PASSED  \]/ { sum += $4 } END { if (sum) print sum }' "$logs/$name.log")
  rows+=("| $name | $result | $count | $((SECONDS - start)) |")
}

tests=build/cuda-ops/tests/unit
ops_test=$tests/ops/cuda/cuda_ops_test
# Every kernel at least once: the sanitizers run them a hundred times slower.
sanitized='*Match*:*StoresTheSameBytes*:*Padding*:*NaNs*:*ReplaysFromAGraph:*AnyAllowedCut*:*Embed*'

engine_tests=build/cuda/tests
# Host code only, or what a GPU refuses; the golden values come through executor_test.
not_for_device='EngineGolden*:All/EngineGolden*:EngineRefuses*:Sampler*:Scheduler*:Statistics*:TextOutput*:RequestCheck*'

architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
build() {
  cmake --preset "$1" -DKV8_CUDA_ARCHITECTURES="$architecture" -DKV8_CUDA_SM70=ON &&
    cmake --build --preset "$@"
}
run_engine_tests() {
  KV8_TEST_DEVICE=cuda "$engine_tests/unit/engine/engine_test" --gtest_filter="-$not_for_device" &&
    "$engine_tests/unit/engine/engine_device_lost_test"
}
device_tests() {
  "$tests/device/device_test" --gtest_filter='-DeviceAbsence*' &&
    "$tests/ops/cuda/device_lost_test"
}
sanitize() {
  compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 5 \
    "$ops_test" --gtest_filter="$sanitized"
}

step build build cuda-ops
$prebuilt || step build-engine build cuda --target executor_test engine_test engine_device_lost_test
step device device_tests
step ops "$ops_test"
step ops-with-sm70-code env KV8_TEST_SM70=1 "$ops_test"
step golden "$engine_tests/golden/executor_test" --gtest_filter='Cuda*'
step golden-with-sm70-code env KV8_TEST_SM70=1 "$engine_tests/golden/executor_test" \
  --gtest_filter='Cuda*Chunk512'
step engine run_engine_tests
if $sanitizer; then
  step memcheck sanitize memcheck
  step racecheck sanitize racecheck
fi
if $bench; then
  step bench build/cuda-ops/bench/ops/cuda/cuda_bench
  step decode-step build/cuda-ops/bench/ops/cuda/cuda_step 8
  step peer python3 bench/ops/cuda/peer_sdpa.py
fi

echo
echo "| step | result | tests | seconds |"
echo "| --- | --- | --- | --- |"
printf '%s\n' "${rows[@]}"
if $bench; then
  echo
  cat "$logs/bench.log" "$logs/decode-step.log" "$logs/peer.log"
fi
echo
echo "$failures failures in $SECONDS seconds"
[[ $failures -eq 0 ]]
