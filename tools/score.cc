// kv8 score: what each token of a text costs under the model.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "commands.h"
#include "engine_flags.h"
#include "output.h"
#include "prompt.h"

namespace kv8 {
namespace {

struct ScoreOptions {
  EngineFlags engine;
  PromptFlags prompt;
  int top_logprobs = 0;
  bool json = false;
};

double Mean(const std::vector<float>& values) {
  // NaN for no values: the text of one token has no cost, which JSON writes as null.
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Json TopLogprobsJson(const std::vector<std::vector<TokenLogprob>>& positions) {
  Json json = Json::array();
  for (const auto& position : positions) {
    Json row = Json::array();
    for (const TokenLogprob& entry : position) {
      row.push_back({{"token_id", entry.token}, {"logprob", entry.logprob}});
    }
    json.push_back(std::move(row));
  }
  return json;
}

Json ToJson(const Score& score, std::size_t tokens, const KvCacheInfo& cache, bool with_top) {
  const double rate = score.seconds > 0 ? static_cast<double>(tokens) / score.seconds : 0;
  Json json = {
      {"nll", score.nll},
      {"mean_nll", Mean(score.nll)},
      {"argmax", score.argmax},
      {"usage", {{"prompt_tokens", tokens}}},
      {"timings", {{"prefill_seconds", score.seconds}, {"prefill_tokens_per_second", rate}}},
      {"kv_cache", KvCacheJson(cache)}};
  if (with_top) json["top_logprobs"] = TopLogprobsJson(score.top_logprobs);
  return json;
}

Result<void> ScoreText(const ScoreOptions& options) {
  ModelTokenizer tokenizer(options.engine.model);
  KV8_ASSIGN_OR_RETURN(const auto ids, ReadPrompt(options.prompt, tokenizer));
  KV8_ASSIGN_OR_RETURN(const auto engine,
                       OpenEngine(options.engine, static_cast<std::int64_t>(ids.size())));
  KV8_ASSIGN_OR_RETURN(const Score score, engine->ScoreTokens(ids, options.top_logprobs));
  const KvCacheInfo cache = engine->kv_cache();
  if (options.json) {
    return WriteJson(ToJson(score, ids.size(), cache, options.top_logprobs > 0));
  }
  const double mean = Mean(score.nll);
  return WriteLines(
      fmt::format("tokens           {}\n"
                  "mean nll         {:.4f}\n"
                  "perplexity       {:.3f}\n"
                  "seconds          {:.2f}\n"
                  "kv cache         {}, {} bytes per token, {}\n",
                  ids.size(), mean, std::exp(mean), score.seconds, Name(cache.dtype),
                  cache.bytes_per_token, LossText(cache)));
}

}  // namespace

CommandRun SetUpScore(CLI::App& app) {
  auto options = std::make_shared<ScoreOptions>();
  AddEngineFlags(app, options->engine, "the length of the text");
  AddPromptFlags(app, options->prompt);
  app.add_option("--top-logprobs", options->top_logprobs,
                 "Also the N most likely tokens of each position")
      ->check(WholeNumberWithin(0, 1000))
      ->capture_default_str();
  AddJsonFlag(app, options->json);
  return [options] { return ScoreText(*options); };
}

}  // namespace kv8
