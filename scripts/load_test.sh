#!/usr/bin/env bash
# Puts kv8 serve under the load of aiperf, a load generator from PyPI, with the bundled model:
# streamed chats of 100 prompt tokens and 32 output tokens.
#
#   scripts/load_test.sh [CONCURRENCY [REQUESTS]]     default: 8 100
#
# Needs build/release/kv8. aiperf (large) goes into build/aiperf once; its report stays there too.
set -euo pipefail
cd "$(dirname "$0")/.."

concurrency=${1:-8}
requests=${2:-100}
kv8=${KV8_BINARY:-build/release/kv8}
aiperf=${AIPERF:-build/aiperf/venv/bin/aiperf}
out=build/aiperf
mkdir -p "$out"
: >"$out/address"  # that of an earlier run must not count

if [[ ! -x $aiperf ]]; then
  python3 -m venv "$out/venv"
  "$out/venv/bin/pip" install --quiet aiperf
fi

# aiperf takes several cores itself.
threads=$((($(nproc) + 1) / 2))
"$kv8" serve --model models/tiny-qwen4exp --port 0 --max-num-seqs "$concurrency" \
  --threads "$threads" --json --log-level warning >"$out/address" 2>"$out/server.log" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server"' EXIT
until [[ -s $out/address ]]; do
  kill -0 "$server" || { cat "$out/server.log" >&2; exit 1; }
  sleep 0.1
done
url=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["url"])' <"$out/address")

# "./": aiperf takes a path without it for a name on a hub.
"$aiperf" profile --model tiny-qwen4exp --tokenizer ./models/tiny-qwen4exp --url "$url" \
  --endpoint-type chat --streaming --concurrency "$concurrency" --request-count "$requests" \
  --synthetic-input-tokens-mean 100 --synthetic-input-tokens-stddev 0 --output-tokens-mean 32 \
  --extra-inputs ignore_eos:true --use-server-token-count --no-gpu-telemetry --ui none \
  --output-artifact-dir "$out/report"
