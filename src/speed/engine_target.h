// The engine in this process as a target.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grammar/constraints.h"
#include "kv8/engine.h"
#include "speed/target.h"

namespace kv8 {

class EngineTarget final : public SpeedTarget {
 public:
  /// `options` have the tokenizer. `prompts` says where prompts come from, for the facts; `go_on`
  /// is asked after each step, false interrupts. Errors: those of Engine::Create.
  static Result<std::unique_ptr<EngineTarget>> Create(const EngineOptions& options,
                                                      std::string prompts,
                                                      std::function<bool()> go_on);

  Result<std::vector<TimedOutput>> Run(std::span<const TimedRequest> requests,
                                       const EnoughFn& enough) override;
  Json facts() const override;
  Json memory() const override;
  const ModelInfo& model() const { return engine_->model(); }

 private:
  EngineTarget(const EngineOptions& options, std::string prompts, std::function<bool()> go_on)
      : options_(options), prompts_(std::move(prompts)), go_on_(std::move(go_on)) {}

  Result<std::shared_ptr<const TokenConstraint>> ConstraintOf(const std::string& json_schema);
  Result<RequestId> Submit(const TimedRequest& timed, TimedOutput& output,
                           const std::function<double()>& now, std::optional<Error>& error);

  EngineOptions options_;
  std::string prompts_;
  std::function<bool()> go_on_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Constraints> constraints_;  // made for the first schema
};

}  // namespace kv8
