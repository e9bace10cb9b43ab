#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "proof/cache_losses.h"
#include "proof/measurements.h"

namespace kv8 {
namespace {

constexpr std::int64_t kOutput = 24;
constexpr std::int64_t kSnapshotMemory = std::int64_t{64} << 20;

using Outputs = std::vector<std::vector<TokenId>>;

std::vector<Request> ShortestPrompts(const std::vector<EvaluationItem>& items) {
  std::map<std::string, const EvaluationItem*> shortest;
  for (const EvaluationItem& item : items) {
    const EvaluationItem*& best = shortest[item.category];
    if (best == nullptr || PromptOf(item).size() < PromptOf(*best).size()) best = &item;
  }
  std::vector<Request> requests;
  for (const auto& [category, item] : shortest) {
    const auto prompt = PromptOf(*item);
    Request request;
    request.prompt.assign(prompt.begin(), prompt.end());
    request.max_tokens = kOutput;
    request.ignore_eos = true;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::int64_t Longest(const std::vector<Request>& requests) {
  std::int64_t longest = 0;
  for (const Request& request : requests) longest = std::max(longest, std::ssize(request.prompt));
  return longest + kOutput;
}

/// One after the other; `hits` counts those that a prefix hit shortened.
Result<Outputs> RunAlone(Engine& engine, const std::vector<Request>& requests, std::int64_t* hits) {
  Outputs outputs;
  for (const Request& request : requests) {
    KV8_ASSIGN_OR_RETURN(Completion completion, engine.Generate(request));
    if (completion.usage.cached_tokens > 0) ++*hits;
    outputs.push_back(std::move(completion.choices[0].token_ids));
  }
  return outputs;
}

Result<Outputs> RunTogether(Engine& engine, const std::vector<Request>& requests) {
  Outputs outputs(requests.size());
  std::optional<Error> error;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto done = [&outputs, &error, i](Completion completion) {
      if (completion.error) error = *completion.error;
      outputs[i] = std::move(completion.choices[0].token_ids);
    };
    KV8_RETURN_IF_ERROR(engine.Submit(requests[i], {}, done));
  }
  while (engine.Step()) {
  }
  if (error) return *error;
  return outputs;
}

std::int64_t Different(const Outputs& a, const Outputs& b) {
  std::int64_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different += a[i] == b[i] ? 0 : 1;
  return different;
}

}  // namespace

Result<ScheduleResult> MeasureSchedule(const EngineOptions& options, const MeasuredCorpus& corpus) {
  const std::vector<Request> requests = ShortestPrompts(corpus.items);
  EngineOptions plain = options;
  plain.max_model_len = Longest(requests);
  plain.prefix_cache_memory = 0;
  EngineOptions busy = plain;
  busy.max_num_seqs = static_cast<int>(requests.size());
  busy.max_num_batched_tokens = kPageTokens;
  busy.prefix_cache_memory = kSnapshotMemory;

  ScheduleResult result{.prompts = std::ssize(requests)};
  std::int64_t none = 0;
  KV8_ASSIGN_OR_RETURN(auto engine, Engine::Create(plain));
  KV8_ASSIGN_OR_RETURN(const Outputs alone, RunAlone(*engine, requests, &none));
  if (!corpus.done(0)) return StoppedError();
  engine.reset();  // before the next one takes memory
  KV8_ASSIGN_OR_RETURN(engine, Engine::Create(busy));
  KV8_ASSIGN_OR_RETURN(const Outputs together, RunTogether(*engine, requests));
  KV8_ASSIGN_OR_RETURN(const Outputs again, RunAlone(*engine, requests, &result.hits));
  result.batched = Different(alone, together);
  result.hit = Different(alone, again);
  if (!corpus.done(0)) return StoppedError();
  return result;
}

}  // namespace kv8
