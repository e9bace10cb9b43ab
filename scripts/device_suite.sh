#!/usr/bin/env bash
# Builds and runs everything that needs a GPU, and prints one table: docs/device-results.md keeps the
# last. Exit code 0 only if all passed.
#
#   scripts/device_suite.sh [--no-bench] [--no-sanitizer] [--pack | --prebuilt]
#
# --pack only builds, and leaves the programs with their libraries in build/device-suite.tar.xz.
# --prebuilt runs those, on a machine that cannot build them.
# Building needs nvcc, the libraries of scripts/setup.sh and, in build/device, the V100 code that
# scripts/compile_device.py makes; the GPU's architecture, or KV8_CUDA_ARCHITECTURES, or else 90.
# Running needs the driver, compute-sanitizer and, for the peer in the benchmark, PyTorch. Logs go to
# build/device-logs.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

bench=true
sanitizer=true
mode=run
for argument in "$@"; do
  case $argument in
    --no-bench) bench=false ;;
    --no-sanitizer) sanitizer=false ;;
    --pack | --prebuilt) mode=${argument#--} ;;
    *)
      sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
  esac
done

suite=build/device-suite
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

# sharded COMMAND...: a GoogleTest program as several processes, each with its share of the tests: most of
# their time is the oracle's, on one core.
sharded() {
  local i status=0 shards jobs=()
  shards=$(($(nproc) < 8 ? $(nproc) : 8))
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$@" &
    jobs+=($!)
  done
  for i in "${jobs[@]}"; do wait "$i" || status=1; done
  return "$status"
}

programs=(device_test device_lost_test cuda_ops_test cuda_bench cuda_step executor_test engine_test
  engine_device_lost_test device_calibration_test prefill_rate kv8)
# The programs in one folder, with the libraries that not every system has.
build() {
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  architecture=${KV8_CUDA_ARCHITECTURES:-${architecture:-90}}
  cmake --preset cuda -DKV8_CUDA_ARCHITECTURES="$architecture" -DKV8_CUDA_SM70=ON &&
    cmake --build --preset cuda --target "${programs[@]}" &&
    rm -rf "$suite" && mkdir -p "$suite/bin" "$suite/lib" || return
  local program
  for program in "${programs[@]}"; do
    find build/cuda -name "$program" -type f -exec strip -o "$suite/bin/$program" {} \; || return
  done
  ldd "$suite"/bin/* | awk '$3 ~ "^/" && $1 !~ /^lib(c|m|gcc_s|stdc\+\+)\.so/ { print $3 }' |
    sort -u | xargs cp -Lt "$suite/lib"
}

if [[ $mode == prebuilt ]]; then
  tar -C build -xf build/device-suite.tar.xz || exit
else
  step build build
fi
if [[ $mode == pack || $failures -gt 0 ]]; then
  # The programs hold the same device code: with a window over all of them it is kept once.
  [[ $failures -eq 0 ]] && tar -C build -I 'xz --lzma2=preset=4,dict=192MiB' \
    -cf build/device-suite.tar.xz device-suite
  exit
fi
export KV8_SOURCE_DIR=$PWD LD_LIBRARY_PATH=$suite/lib:${LD_LIBRARY_PATH:-}

# Every kernel at least once: the sanitizers run them a hundred times slower.
sanitized='*Match*:*StoresTheSameBytes*:*Padding*:*NaNs*:*ReplaysFromAGraph:*AnyAllowedCut*:*Embed*'
# Host code only, or what a GPU refuses; the golden values come through executor_test.
not_for_device='*EngineGolden*:EngineRefuses*:Sampler*:Scheduler*:Statistics*:TextOutput*:RequestCheck*'
golden=$suite/bin/executor_test
ops=$suite/bin/cuda_ops_test
device_tests() {
  "$suite/bin/device_test" --gtest_filter='-DeviceAbsence*' && "$suite/bin/device_lost_test"
}
engine_tests() {
  KV8_TEST_DEVICE=cuda sharded "$suite/bin/engine_test" --gtest_filter="-$not_for_device" &&
    "$suite/bin/engine_device_lost_test"
}
sanitize() {
  sharded compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 5 \
    "$ops" --gtest_filter="$sanitized"
}

# Tokens per second of whole commands, opening the model and both passes over the corpus among it; then
# what the passes make on the GPU beside plain prefill.
calibrations() {
  local device begin model=models/tiny-qwen4exp corpus=examples/corpus/calibration.jsonl
  for device in cpu cuda; do
    begin=$(date +%s%N)
    "$suite/bin/kv8" calibrate --model $model --corpus $corpus --max-tokens 200000 --device $device \
      --output "$logs/calibration-$device.json" --json --quiet >"$logs/calibration.tokens" || return
    echo "$device $(($(date +%s%N) - begin))" \
      "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["tokens"])' <"$logs/calibration.tokens")"
  done >"$logs/calibrations"
  awk 'BEGIN { print "\n| calibrate, whole command | tokens | tokens/s | of the CPU |\n| --- | --- | --- | --- |" }
    { rate = $3 / $2 * 1e9; if (NR == 1) cpu = rate
      printf "| %s | %d | %.0f | %.1f |\n", $1, $3, rate, rate / cpu }' "$logs/calibrations"
  "$suite/bin/prefill_rate" $model $corpus cuda 200000
}
# What `kv8 plan --devices this` says, beside what the engine takes with the same flags: once with all on the
# GPU, with drafts, and once with a byte less, so that the tables must lie in host memory.
plans() {
  python3 - "$suite/bin/kv8" models/tiny-qwen4exp "$logs/plan-ids.json" <<'PYTHON'
import json, pathlib, subprocess, sys
kv8, model, ids = sys.argv[1:]
pathlib.Path(ids).write_text("[20, 21, 22]")
def run(*flags):
    common = ["--model", model, "--max-model-len", "4096", "--kv-memory", "40000000",
              "--kv-cache-dtype", "fp16", "--max-num-batched-tokens", "512", "--json"]
    return json.loads(subprocess.run([kv8, *flags, *common], check=True, capture_output=True).stdout)
def compare(plan_flags, run_flags):
    plan = run("plan", "--devices", "this", "--code-memory", "1", *plan_flags)
    taken = run("generate", "--device", "cuda", "--token-ids", ids, "--max-tokens", "1", *run_flags)
    planned = plan["caches"][0]["stages"][0]
    assert plan["device"] == "cuda" and plan["not_run_yet"] == [], plan
    assert planned["memory"] == taken["memory"], (planned["memory"], taken["memory"])
    print(planned["memory"])
    return planned
compare([], [])
drafts = ["--speculative-tokens", "3"]
whole = compare(drafts, drafts)["on_device"] - 1  # without the byte of --code-memory
host = compare([*drafts, "--memory", str(whole)], [*drafts, "--device-memory", str(whole - 1)])
assert host["memory"]["tables"] == 0 and host["ngram_table"]["in"] == "host", host
PYTHON
}
step device device_tests
step ops sharded "$ops"
step ops-with-sm70-code sharded env KV8_TEST_BACKEND=sm70 "$ops"
step golden sharded "$golden" --gtest_filter='Cuda*'
step golden-with-sm70-code sharded env KV8_TEST_BACKEND=sm70 "$golden" --gtest_filter='Cuda*Chunk512'
step engine engine_tests
step plan plans
step calibration env KV8_TEST_DEVICE=cuda "$suite/bin/device_calibration_test"
if $sanitizer; then
  step memcheck sanitize memcheck
  step racecheck sanitize racecheck
fi
if $bench; then
  step bench "$suite/bin/cuda_bench"
  step decode-step "$suite/bin/cuda_step" 8
  rm -f "$logs"/calibration-*.json
  step calibrate calibrations
  step peer env -u LD_LIBRARY_PATH python3 bench/ops/cuda/peer_sdpa.py
fi

echo
echo "| step | result | tests | seconds |"
echo "| --- | --- | --- | --- |"
printf '%s\n' "${rows[@]}"
if $bench; then
  echo
  cat "$logs/bench.log" "$logs/decode-step.log" "$logs/calibrate.log" "$logs/peer.log"
fi
echo
echo "$failures failures in $SECONDS seconds"
[[ $failures -eq 0 ]]
