#include "proof/arm_runs.h"

#include <algorithm>
#include <utility>

namespace kv8 {
namespace {

Result<ArmScores> FromJson(const Json& json, const std::string& where,
                           const std::optional<ArmScores>& /*kind*/) {
  return ScoresFromJson(json, where);
}
Result<ArmOutputs> FromJson(const Json& json, const std::string& where,
                            const std::optional<ArmOutputs>& /*kind*/) {
  return OutputsFromJson(json, where);
}
Result<ScheduleResult> FromJson(const Json& json, const std::string& where,
                                const std::optional<ScheduleResult>& /*kind*/) {
  return ScheduleFromJson(json, where);
}
Result<AttentionResult> FromJson(const Json& json, const std::string& where,
                                 const std::optional<AttentionResult>& /*kind*/) {
  return AttentionFromJson(json, where);
}

/// Comparing goes by the corpus's entries.
bool Fits(const ArmScores& scores, const std::vector<EvaluationItem>& items) {
  std::size_t text = 0;
  for (const EvaluationItem& item : items) {
    if (!item.IsText()) continue;
    if (text == scores.texts.size()) return false;
    const std::size_t positions = scores.texts[text++].argmax.size();
    if (positions != 0 && positions != item.ids.size()) return false;  // none of a server
  }
  return text == scores.texts.size();
}
bool Fits(const ArmOutputs& outputs, const std::vector<EvaluationItem>& items) {
  return outputs.items.size() == items.size();
}
bool Fits(const ScheduleResult& /*result*/, const std::vector<EvaluationItem>& /*items*/) {
  return true;
}
bool Fits(const AttentionResult& /*result*/, const std::vector<EvaluationItem>& /*items*/) {
  return true;
}

}  // namespace

ArmRuns::ArmRuns(const VerifyOptions& options, const RunInputs& inputs,
                 const VerifyProgress& progress)
    : options_(options),
      inputs_(inputs),
      progress_(progress),
      store_(options.output_dir / "parts"),
      a_{"a", options.a, {}},
      again_{"a_again", options.a, {}},
      b_{"b", options.b, {}},
      corpus_{inputs.items, *inputs.tokenizer, [this](std::uint64_t tokens) {
                done_ += tokens;
                return Tell().ok();
              }} {
  all_ = 3 * (ScoreTokensOf(inputs.items) + OutputTokensOf(inputs.items));
  if (!options.a.server && !options.b.server) all_ += AttentionTokensOf(inputs.items);
}

Result<void> ArmRuns::Measure() {
  KV8_RETURN_IF_ERROR(Tell());
  for (Arm* arm : {&a_, &again_, &b_}) {
    KV8_RETURN_IF_ERROR(arm->spec.server ? MeasureServed(*arm) : MeasureItems(*arm));
  }
  engine_.reset();
  for (Arm* arm : {&a_, &b_}) {
    if (arm->spec.server) {
      NoteGaps(*arm);
    } else {
      KV8_RETURN_IF_ERROR(MeasureSchedules(*arm));
    }
  }
  return MeasureBoth();
}

Result<void> ArmRuns::Tell() const {
  if (progress_(done_, all_)) return {};
  return Error{Code::kCancelled, "stopped before the end", options_.output_dir.string(),
               "run the same command again to go on behind the last finished measurement"};
}

EngineOptions ArmRuns::OptionsOf(const ArmSpec& arm) const {
  EngineOptions options = options_.engine;
  options.kv_dtype = arm.dtype;
  options.scale_pack = arm.scale_pack;
  options.tokenizer = inputs_.tokenizer;
  std::int64_t longest = 1;
  for (const EvaluationItem& item : inputs_.items) {
    longest =
        std::max({longest, std::ssize(item.ids), std::ssize(PromptOf(item)) + OutputTokens(item)});
  }
  options.max_model_len = longest;
  return options;
}

/// A and A again share one: what a run leaves behind in it would show as noise.
Result<Engine*> ArmRuns::EngineOf(const Arm& arm) {
  if (!engine_ || engine_of_ != &arm.spec) {
    engine_.reset();  // before the next one takes memory
    KV8_ASSIGN_OR_RETURN(engine_, Engine::Create(OptionsOf(arm.spec)));
    engine_of_ = &arm.spec;
  }
  return engine_.get();
}

Result<void> ArmRuns::MeasureItems(Arm& arm) {
  const auto scores = [&]() -> Result<ArmScores> {
    KV8_ASSIGN_OR_RETURN(Engine* const engine, EngineOf(arm));
    return MeasureScores(*engine, corpus_);
  };
  const auto outputs = [&]() -> Result<ArmOutputs> {
    KV8_ASSIGN_OR_RETURN(Engine* const engine, EngineOf(arm));
    return MeasureOutputs(*engine, corpus_);
  };
  const auto identity = IdentityOf(inputs_, options_, arm.spec);
  KV8_RETURN_IF_ERROR(Part({arm.name, "scores"}, identity, ScoreTokensOf(inputs_.items),
                           arm.results.scores, scores));
  return Part({arm.name, "outputs"}, identity, OutputTokensOf(inputs_.items), arm.results.outputs,
              outputs);
}

/// Asks for the model's name first, which its results are bound to.
Result<void> ArmRuns::MeasureServed(Arm& arm) {
  auto served = ServedArm::Connect(*arm.spec.server);
  const auto scores = [&] { return served->MeasureScores(corpus_); };
  const auto outputs = [&] { return served->MeasureOutputs(corpus_); };
  if (served.ok()) arm.results.served_model = served->model();
  const Result<Json> identity =
      served.ok() ? Result<Json>(ServedIdentityOf(inputs_, arm.spec.server->url, served->model()))
                  : Result<Json>(served.error());
  KV8_RETURN_IF_ERROR(Part({arm.name, "scores", true}, identity, ScoreTokensOf(inputs_.items),
                           arm.results.scores, scores));
  return Part({arm.name, "outputs", true}, identity, OutputTokensOf(inputs_.items),
              arm.results.outputs, outputs);
}

void ArmRuns::NoteGaps(const Arm& arm) {
  for (NotMeasured& gap : NeverMeasuredOf(arm.name)) not_measured_.push_back(std::move(gap));
  if (!arm.results.outputs || !arm.results.outputs->from_text) return;
  not_measured_.push_back(
      {arm.name, "token ids",
       "the server gives texts: outputs are compared by the tokens that the tokenizer makes of "
       "them"});
}

Result<void> ArmRuns::MeasureSchedules(Arm& arm) {
  const auto schedule = [&] { return MeasureSchedule(OptionsOf(arm.spec), corpus_); };
  return Part({arm.name, "schedule"}, IdentityOf(inputs_, options_, arm.spec), 0,
              arm.results.schedule, schedule);
}

/// Needs an A and a B that run.
Result<void> ArmRuns::MeasureBoth() {
  if (!failures_.empty() || a_.spec.server || b_.spec.server) return {};
  KV8_ASSIGN_OR_RETURN(const Json a, IdentityOf(inputs_, options_, a_.spec));
  KV8_ASSIGN_OR_RETURN(const Json b, IdentityOf(inputs_, options_, b_.spec));
  const auto attention = [&] { return MeasureAttention(options_, corpus_); };
  return Part({"a_and_b", "attention"}, Json{{"a", a}, {"b", b}}, AttentionTokensOf(inputs_.items),
              attention_, attention);
}

/// Loads a finished measurement, or makes it and keeps it.
template <class T, class MakeFn>
Result<void> ArmRuns::Part(const PartName& part, const Result<Json>& identity, std::uint64_t tokens,
                           std::optional<T>& result, const MakeFn& make) {
  const std::uint64_t end = done_ + tokens;
  const std::string name = part.arm + "." + part.measurement;
  std::optional<Json> stored;
  if (identity.ok()) {
    KV8_ASSIGN_OR_RETURN(stored, store_.Load(name, *identity));
  }
  Result<T> found = !identity.ok() ? Result<T>(identity.error())
                    : stored       ? FromJson(*stored, store_.PathOf(name).string(), result)
                                   : make();
  if (found.ok() && !Fits(*found, inputs_.items)) {
    return Error{Code::kCorrupt, "has not one entry per document of the corpus",
                 store_.PathOf(name).string(), "run with --restart to measure anew"};
  }
  if (!found.ok()) {
    if (stored || found.error().code == Code::kCancelled) return found.error();
    if (part.served && found.error().code == Code::kUnsupported) {
      not_measured_.push_back({part.arm, part.measurement, found.error().what});
    } else {
      failures_.push_back(
          {.arm = part.arm, .measurement = part.measurement, .error = found.error()});
      engine_.reset();  // it may have failed for good
    }
  } else {
    if (!stored) KV8_RETURN_IF_ERROR(store_.Save(name, *identity, ToJson(*found)));
    result = std::move(*found);
  }
  done_ = end;
  return Tell();
}

}  // namespace kv8
