#!/usr/bin/env bash
# From a fresh Debian 12 to answers from an 8-bit K/V cache: installs what is missing, builds kv8,
# then calibrate -> pack -> materialize -> generate on the bundled model, FP16 beside E4M3.
#
# Works in build/ only; run it as often as you like.
set -euo pipefail
cd "$(dirname "$0")/.."

model=models/tiny-qwen4exp
corpus=examples/corpus
out=build/quickstart
kv8=build/release/kv8

say() { printf '\n== %s\n' "$*"; }
run() {
  printf '$ %s\n' "$*"
  "$@"
}

say "Installing what is missing"
scripts/setup.sh

say "Building kv8"
# The tests need further packages; scripts/test.sh installs and builds them.
cmake --preset release -DKV8_BUILD_TESTS=OFF -DKV8_BUILD_BENCH=OFF >/dev/null
cmake --build --preset release --target kv8

rm -rf "$out"
mkdir -p "$out"

say "1. calibrate: measure the range of K and V over a corpus"
# Every category of the corpus; its rest is more of the long English texts.
run "$kv8" calibrate --model "$model" --corpus "$corpus/calibration.jsonl" \
  --max-tokens 100000 --saturation-tokens 10000 --output "$out/report.json"

say "2. pack: publish the ranges as scales"
run "$kv8" pack --report "$out/report.json" --model "$model" --output-dir "$out/pack"

say "3. materialize: bind the scales to the checkpoint"
run "$kv8" materialize --base-checkpoint "$model" --pack-dir "$out/pack" --output-dir "$out/model"

say "4. generate: from an E4M3 cache"
run "$kv8" generate --model "$out/model" --kv-cache-dtype fp8_e4m3 --max-tokens 40 \
  --prompt "The table shows 644 crates, 45 of which came from"

say "Summary: FP16 beside E4M3, on texts that calibration has not seen"
scripts/compare_kv_dtypes.py --kv8 "$kv8" --model "$model" --scaled-model "$out/model" \
  --corpus "$corpus/evaluation.jsonl"
printf '\n%s seconds in all. The scale pack: %s; the model with its scales: %s\n' \
  "$SECONDS" "$out/pack" "$out/model"
