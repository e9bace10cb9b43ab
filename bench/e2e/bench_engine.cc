#include "bench_engine.h"

#include <cstdlib>
#include <random>
#include <utility>

namespace kv8::bench {
namespace {

std::filesystem::path ScalePack() {
  const char* named = std::getenv("KV8_SCALE_PACK");
  if (named != nullptr) return named;
  return std::filesystem::path(KV8_SOURCE_DIR) / "build/quickstart/pack";
}

int Threads() {
  const char* count = std::getenv("KV8_BENCH_THREADS");
  return count != nullptr ? std::atoi(count) : 2;
}

}  // namespace

std::vector<TokenId> SomeIds(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  // Above the special tokens, below every vocabulary of the family.
  for (TokenId& id : ids) id = static_cast<TokenId>(100 + random() % 5000);
  return ids;
}

std::unique_ptr<Engine> OpenOrSkip(benchmark::State& state, EngineOptions options) {
  const char* named = std::getenv("KV8_BENCH_MODEL");
  const auto bundled = std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp";
  options.model = named != nullptr ? named : bundled;
  options.threads = Threads();
  if (options.kv_dtype == KvDType::kE4M3) options.scale_pack = ScalePack();
  auto engine = Engine::Create(options);
  if (engine.ok()) return std::move(engine).value();
  state.SkipWithError(engine.error().ToString().c_str());
  return nullptr;
}

bool StartOrSkip(benchmark::State& state, Engine& engine, int sequences, std::int64_t context,
                 std::int64_t max_tokens) {
  const auto started = std::make_shared<int>(0);  // callbacks outlive this call
  for (int i = 0; i < sequences; ++i) {
    Request request;
    request.prompt = SomeIds(context, static_cast<unsigned>(i));
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    const auto id = engine.Submit(std::move(request),
                                  [started, first = true](const TokenEvent&) mutable {
                                    if (first) ++*started;
                                    first = false;
                                    return TokenReply::kGoOn;
                                  },
                                  {});
    if (!id.ok()) {
      state.SkipWithError(id.error().ToString().c_str());
      return false;
    }
  }
  while (*started < sequences && engine.Step()) {
  }
  return true;
}

}  // namespace kv8::bench
