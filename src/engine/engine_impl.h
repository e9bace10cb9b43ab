// The engine behind kv8/engine.h: a step is schedule, run, commit.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/mask_worker.h"
#include "engine/options.h"
#include "engine/request_check.h"
#include "engine/request_flow.h"
#include "engine/runner.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/speculation.h"
#include "engine/statistics.h"
#include "kv8/engine.h"
#include "text/tokenizer.h"

namespace kv8 {

class Engine::Impl {
 public:
  Impl(const EngineOptions& options, const EngineSetup& setup,
       std::unique_ptr<const LoadedModel> model, std::unique_ptr<Executor> executor,
       std::shared_ptr<const Tokenizer> tokenizer, std::unique_ptr<HostTier> tier);
  ~Impl();

  Result<RequestId> Submit(Request request, TokenCallback on_token, DoneCallback on_done);
  bool Step();
  void Cancel(RequestId id);
  Result<Score> ScoreTokens(std::span<const TokenId> ids, int top_logprobs);

  const ModelInfo& model() const { return info_; }
  const MemoryPlan& memory() const { return memory_; }
  const std::optional<Error>& failure() const { return failure_; }
  KvCacheInfo kv_cache() const;
  std::vector<KvPageInfo> pool_map() const;
  EngineStatistics statistics() const {
    EngineStatistics now = statistics_.Snapshot(scheduler_, runner_.executor().Saturation());
    now.ngram_table = runner_.executor().ngram_table();
    if (tier_) now.kv_host = tier_->statistics();
    return now;
  }

 private:
  /// Errors: kNotFound for a checkpoint without one.
  Result<const Tokenizer*> FindTokenizer() const;
  void Enqueue(std::unique_ptr<RequestRecord> record);
  static void MarkStarted(const StepPlan& plan);
  void WriteBack();
  void Commit(const StepPlan& plan);
  void CommitPrompt(const PlanItem& item);
  void CommitTokens(const PlanItem& item, Matrix logits, std::span<const TokenId> tokens);
  std::optional<NewToken> NextToken(Sequence& sequence, std::size_t row, std::span<float> logits,
                                    bool& accepted);
  void Finish(Sequence& sequence, FinishReason reason);
  void FinishAll(RequestRecord& record, FinishReason reason);
  void Fail(RequestRecord& record, Error error);
  void LookForFailure();
  bool FailAllIfFailed();
  void DeliverFinished();

  const std::filesystem::path dir_;
  std::unique_ptr<const LoadedModel> loaded_;
  Runner runner_;
  const std::unique_ptr<HostTier> tier_;  // null: none
  Scheduler scheduler_;
  Sampler sampler_;
  std::optional<Speculator> speculator_;
  Statistics statistics_;
  MaskWorker masks_;
  ModelInfo info_;
  MemoryPlan memory_;
  RequestLimits limits_;
  const std::shared_ptr<const Tokenizer> tokenizer_;  // null: the checkpoint has none

  std::map<RequestId, std::unique_ptr<RequestRecord>> requests_;
  std::vector<RequestId> finished_;  // complete, to be delivered when the step is over
  std::uint64_t next_id_ = 1;
  std::uint64_t next_arrival_ = 0;
  std::optional<Error> failure_;  // ends all work, for good
  StepPlan plan_;
  std::vector<PlanKeep> keeps_;      // snapshots to take after the step
  std::vector<SnapshotId> dropped_;  // to give up before that
};

}  // namespace kv8
