#include "speed/engine_target.h"

#include <chrono>
#include <utility>

#include "ops/routes.h"
#include "plan/memory_json.h"
#include "speed/comparability.h"

namespace kv8 {

Result<std::unique_ptr<EngineTarget>> EngineTarget::Create(const EngineOptions& options,
                                                           std::string prompts,
                                                           std::function<bool()> go_on) {
  auto target = std::unique_ptr<EngineTarget>(
      new EngineTarget(options, std::move(prompts), std::move(go_on)));
  KV8_ASSIGN_OR_RETURN(target->engine_, Engine::Create(options));
  return target;
}

Result<std::shared_ptr<const TokenConstraint>> EngineTarget::ConstraintOf(
    const std::string& json_schema) {
  if (!constraints_) constraints_ = std::make_unique<Constraints>(*options_.tokenizer);
  return constraints_->OfJsonSchema(json_schema);
}

Result<RequestId> EngineTarget::Submit(const TimedRequest& timed, TimedOutput& output,
                                       const std::function<double()>& now,
                                       std::optional<Error>& error) {
  Request request;
  request.prompt = timed.prompt;
  request.max_tokens = timed.max_tokens;
  if (!timed.json_schema.empty()) {
    KV8_ASSIGN_OR_RETURN(request.constraint, ConstraintOf(timed.json_schema));
  }
  request.ignore_eos = timed.json_schema.empty();
  request.text = !timed.json_schema.empty();
  const auto on_token = [&output, now](const TokenEvent& event) {
    output.ids.push_back(event.token);
    output.token_seconds.push_back(now());
    return TokenReply::kGoOn;
  };
  const auto on_done = [&output, &error](Completion completion) {
    if (completion.error) error = std::move(completion.error);
    output.text = std::move(completion.choices[0].text);
    output.cached_tokens = completion.usage.cached_tokens;
    output.speculation = std::move(completion.speculation);
  };
  return engine_->Submit(std::move(request), on_token, on_done);
}

Result<std::vector<TimedOutput>> EngineTarget::Run(std::span<const TimedRequest> requests,
                                                   const EnoughFn& enough) {
  std::vector<TimedOutput> outputs(requests.size());
  std::vector<RequestId> ids;
  std::optional<Error> error;
  const auto begin = std::chrono::steady_clock::now();
  const auto now = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto cancel_all = [&] {
    for (const RequestId id : ids) engine_->Cancel(id);
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto id = Submit(requests[i], outputs[i], now, error);
    if (!id.ok()) {
      cancel_all();
      return std::move(id).error();
    }
    ids.push_back(*id);
  }
  while (engine_->Step() && !enough(outputs)) {
    if (go_on_()) continue;
    cancel_all();
    return Error{Code::kCancelled, "stopped before the end", "kv8 bench", "run it again"};
  }
  cancel_all();
  if (error) return *error;
  return outputs;
}

Json EngineTarget::facts() const {
  Json routes = Json::object();
  for (const OpRoute& route : RoutesOf(options_.device, options_.backend)) {
    routes[std::string(route.op)] = route.code;
  }
  const bool drafts = options_.speculative_tokens > 0;
  return {{kRoutesFact, std::move(routes)},
          {kPartitionFact, {{"tensor_parallel_size", 1}, {"pipeline_parallel_size", 1}}},
          {kAcceptanceFact,
           {{"prompts", prompts_},
            {"speculative_tokens", options_.speculative_tokens},
            {"drafts", drafts ? Json("the checkpoint's head, greedy") : Json()}}}};
}

Json EngineTarget::memory() const {
  return MemoryJson(engine_->memory());
}

}  // namespace kv8
