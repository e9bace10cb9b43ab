#include "speed/bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "base/checked.h"
#include "speed/cells.h"
#include "speed/comparability.h"
#include "speed/engine_target.h"
#include "speed/report.h"
#include "speed/server_target.h"
#include "speed/structured.h"

namespace kv8 {
namespace {

constexpr std::int64_t kSnapshots = 64;  // states of prompts kept for conversations

class BenchRun {
 public:
  BenchRun(const BenchOptions& options, const BenchProgress& progress, PromptSource prompts,
           std::shared_ptr<const Tokenizer> tokenizer)
      : options_(options),
        progress_(progress),
        prompts_(std::move(prompts)),
        tokenizer_(std::move(tokenizer)) {}

  Result<BenchResults> Run();

 private:
  using Targets = std::vector<std::unique_ptr<SpeedTarget>>;

  /// The servers, or else these engines.
  Result<Targets> Open(const std::vector<EngineOptions>& engines);
  std::size_t Arms() const { return EngineArms().size() + options_.servers.size(); }
  std::vector<ArmSpec> EngineArms() const {
    return options_.servers.empty() ? ArmsOf(options_) : std::vector<ArmSpec>();
  }
  Result<void> Tell(std::uint64_t runs);
  Result<void> RunMatrix();
  Result<void> RunConversations();
  Result<void> RunStructured();
  template <class T, class Measure>
  Result<std::vector<std::vector<T>>> InTurn(Targets& targets, const Measure& measure);
  void KeepFacts(const Targets& targets);

  const BenchOptions& options_;
  const BenchProgress& progress_;
  PromptSource prompts_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  BenchResults results_;
  std::uint64_t done_ = 0;
  std::uint64_t all_ = 0;
};

Result<void> BenchRun::Tell(std::uint64_t runs) {
  done_ += runs;
  if (progress_(done_, all_)) return {};
  return Error{Code::kCancelled, "stopped before the end", "kv8 bench", "run it again"};
}

Result<BenchRun::Targets> BenchRun::Open(const std::vector<EngineOptions>& engines) {
  Targets targets;
  for (const ServedArm& server : options_.servers) {
    KV8_ASSIGN_OR_RETURN(
        auto target, ServerTarget::Create(server.url, server.model, {.api_key = options_.api_key},
                                          prompts_.name(), tokenizer_));
    targets.push_back(std::move(target));
  }
  if (!targets.empty()) return targets;
  for (const EngineOptions& engine : engines) {
    KV8_ASSIGN_OR_RETURN(auto target, EngineTarget::Create(engine, prompts_.name(), [this] {
                           return progress_(done_, all_);
                         }));
    targets.push_back(std::move(target));
  }
  return targets;
}

void BenchRun::KeepFacts(const Targets& targets) {
  if (!results_.arms.empty()) return;
  for (const auto& target : targets) results_.arms.push_back({target->facts(), target->memory()});
}

/// Room for all conversations at once, unless the options give them less.
Result<EngineOptions> ForConversations(const BenchOptions& options, const ArmSpec& arm) {
  const Conversations& talk = options.conversations;
  EngineOptions engine = OptionsOf(options, arm);
  engine.max_model_len = RoundUp(talk.tokens() + 1, kPageTokens);
  engine.max_num_seqs = 1;
  KV8_ASSIGN_OR_RETURN(const MemoryPlan one, Engine::Plan(engine));
  const EngineOptions& asked = options.engine;
  const std::int64_t cache = one.kv + one.index + one.draft_kv + one.draft_index;
  engine.kv_memory = asked.kv_memory.value_or((talk.count + 1) * cache);
  engine.prefix_cache_memory = asked.prefix_cache_memory > 0 ? asked.prefix_cache_memory
                                                             : kSnapshots * talk.count * one.states;
  engine.kv_host_memory = asked.kv_host_memory;
  engine.kv_disk = asked.kv_disk;
  engine.kv_disk_quota = asked.kv_disk_quota;
  engine.cache_generated = true;
  return engine;
}

/// A warm-up of each, then `repeats` rounds of A and B; per arm what each round gave.
template <class T, class Measure>
Result<std::vector<std::vector<T>>> BenchRun::InTurn(Targets& targets, const Measure& measure) {
  std::vector<std::vector<T>> found(targets.size());
  for (int round = 0; round <= options_.repeats; ++round) {
    for (std::size_t arm = 0; arm < targets.size(); ++arm) {
      KV8_ASSIGN_OR_RETURN(T measured, measure(*targets[arm]));
      if (round > 0) found[arm].push_back(std::move(measured));
      KV8_RETURN_IF_ERROR(Tell(1));
    }
  }
  return found;
}

Result<void> BenchRun::RunMatrix() {
  KV8_ASSIGN_OR_RETURN(PlannedCells planned, PlanCells(options_));
  results_.skipped = std::move(planned.skipped);
  const std::uint64_t rounds = static_cast<std::uint64_t>(options_.repeats) + 1;
  all_ += planned.cells.size() * rounds * Arms();
  KV8_ASSIGN_OR_RETURN(Targets targets, Open(planned.engines));
  KeepFacts(targets);
  for (const Cell& cell : planned.cells) {
    const auto measure = [&](SpeedTarget& target) {
      return MeasureCell(target, prompts_, cell, MostTokensOf(options_, cell));
    };
    KV8_ASSIGN_OR_RETURN(auto times, InTurn<CellTimes>(targets, measure));
    results_.cells.push_back({cell, std::move(times)});
  }
  return {};
}

Result<void> BenchRun::RunConversations() {
  std::vector<EngineOptions> engines;
  for (const ArmSpec& arm : EngineArms()) {
    KV8_ASSIGN_OR_RETURN(EngineOptions engine, ForConversations(options_, arm));
    engines.push_back(std::move(engine));
  }
  all_ += Arms();
  KV8_ASSIGN_OR_RETURN(const Targets targets, Open(engines));
  KeepFacts(targets);
  for (const auto& target : targets) {
    KV8_ASSIGN_OR_RETURN(auto turns,
                         MeasureConversations(*target, prompts_, options_.conversations));
    results_.conversations.push_back(std::move(turns));
    KV8_RETURN_IF_ERROR(Tell(1));
  }
  return {};
}

Result<void> BenchRun::RunStructured() {
  const std::int64_t most = std::ranges::max(options_.sequences);
  std::vector<EngineOptions> engines;
  for (const ArmSpec& arm : EngineArms()) {
    EngineOptions& engine = engines.emplace_back(OptionsOf(options_, arm));
    engine.max_model_len = kRecordPrompt + kRecordTokens;
    engine.max_num_seqs = static_cast<int>(most);
  }
  const std::uint64_t rounds = static_cast<std::uint64_t>(options_.repeats) + 1;
  all_ += options_.sequences.size() * rounds * Arms();
  KV8_ASSIGN_OR_RETURN(Targets targets, Open(engines));
  KeepFacts(targets);
  for (const std::int64_t sequences : options_.sequences) {
    const auto measure = [&](SpeedTarget& target) {
      return MeasureStructured(target, prompts_, sequences);
    };
    KV8_ASSIGN_OR_RETURN(auto times, InTurn<StructuredTimes>(targets, measure));
    results_.structured.push_back({sequences, std::move(times)});
  }
  return {};
}

Result<BenchResults> BenchRun::Run() {
  const auto start = std::chrono::steady_clock::now();
  if (options_.matrix) KV8_RETURN_IF_ERROR(RunMatrix());
  if (options_.converse) KV8_RETURN_IF_ERROR(RunConversations());
  if (options_.structured) KV8_RETURN_IF_ERROR(RunStructured());
  results_.prompts = prompts_.name();
  results_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(results_);
}

std::uint64_t SeedOf(const BenchOptions& options) {
  if (options.seed) return *options.seed;
  return options.servers.empty() ? 1 : std::random_device()();
}

Result<PromptSource> Prompts(const BenchOptions& options, const Tokenizer& tokenizer,
                             std::int64_t vocab) {
  const std::uint64_t seed = SeedOf(options);
  if (!options.corpus) return PromptSource::Random(vocab, seed);
  return PromptSource::OfCorpus(*options.corpus, tokenizer, vocab, seed);
}

}  // namespace

Result<Json> Bench(const BenchOptions& options, const BenchProgress& progress) {
  KV8_ASSIGN_OR_RETURN(Tokenizer read, Tokenizer::Load(options.engine.model / "tokenizer.json"));
  const auto tokenizer = std::make_shared<const Tokenizer>(std::move(read));
  BenchOptions shared = options;
  shared.engine.tokenizer = tokenizer;
  KV8_ASSIGN_OR_RETURN(
      PromptSource prompts,
      Prompts(options, *tokenizer, static_cast<std::int64_t>(tokenizer->vocab_size())));
  BenchRun run(shared, progress, std::move(prompts), tokenizer);
  KV8_ASSIGN_OR_RETURN(const BenchResults results, run.Run());
  return BenchReport(options, results);
}

}  // namespace kv8
