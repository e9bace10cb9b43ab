// What the end-to-end benchmarks share. They use the public engine only.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "kv8/engine.h"

namespace kv8::bench {

/// `count` token ids that look like no text in particular; different for every `seed`. Speed does
/// not depend on what the tokens are.
std::vector<TokenId> SomeIds(std::int64_t count, unsigned seed);

/// $KV8_BENCH_MODEL, by default the bundled model, with $KV8_BENCH_THREADS threads, by default two.
/// E4M3 takes its scales from $KV8_SCALE_PACK, or from where scripts/quickstart.sh leaves them.
/// Skips the benchmark and returns nullptr on any error.
std::unique_ptr<Engine> OpenOrSkip(benchmark::State& state, EngineOptions options);

/// Submits prompts of `context` tokens, one per sequence, and runs them to their first tokens.
/// `max_tokens` as in Request. Skips the benchmark and returns false on any error.
bool StartOrSkip(benchmark::State& state, Engine& engine, int sequences, std::int64_t context,
                 std::int64_t max_tokens);

}  // namespace kv8::bench
