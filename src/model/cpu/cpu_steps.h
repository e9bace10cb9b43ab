// The steps of a pass on the CPU, over the ops of one backend.
#pragma once

#include "kvcache/kv_cache.h"
#include "model/batch.h"
#include "model/cpu/table_rows.h"
#include "model/cpu/workspace.h"
#include "model/observer.h"
#include "model/steps.h"
#include "ops/op_table.h"

namespace kv8 {

/// Everything a pass works on besides weights and rows. The caller owns what it refers to.
struct CpuContext {
  const OpTable& ops;
  OpContext op_context;
  KvCache& cache;
  Workspace& workspace;
  ForwardObserver* observer = nullptr;
  /// Per K/V layer 2 * kv_heads, or empty: nothing is counted.
  std::span<HeadMagnitudes> magnitudes = {};
  /// Where rows of n-gram tables come from, if not from the weights. What the batch needs has been
  /// started.
  TableRows* table_rows = nullptr;
};

/// One pass; every step is done when it returns.
class CpuSteps final : public Steps {
 public:
  /// Over the batch's rows; `streams` [T,S*H] is what the pass leaves. A draft pass begins with
  /// `target` [T,S*H]: each row's streams, of RunTarget or of the draft pass before.
  CpuSteps(const ModelSpec& config, const CpuContext& context, const Batch& batch, Matrix streams,
           ConstMatrix target = {});
  /// Over rows that have their streams [R,S*H]: RunHead leaves `logits` [R,V].
  CpuSteps(const ModelSpec& config, const CpuContext& context, Matrix streams, Matrix logits);

  Result<void> Embed(const Weight& table) override;
  Result<void> NgramMemory(const PleWeights& weights, const LayerSpec& layer) override;
  Result<void> Mix(const HyperConnectionWeights& weights) override;
  Result<void> Gdn(const GdnLayerWeights& weights, const LayerSpec& layer) override;
  Result<void> ProjectAttention(const QsaLayerWeights& weights) override;
  Result<void> StoreKeyValue(const QsaLayerWeights& weights, const LayerSpec& layer) override;
  Result<void> ObserveKeyValue(const LayerSpec& layer) override;
  Result<void> Attend(const QsaLayerWeights& weights, const LayerSpec& layer) override;
  Result<void> Experts(const MoeWeights& weights) override;
  Result<void> Reduce() override { return {}; }  // there is one rank
  Result<void> Combine() override;
  Result<void> ObserveStreams(const LayerSpec& layer) override;
  Result<void> Finish() override { return {}; }  // nothing is deferred
  Result<void> EmbedNext(const Weight& table) override;
  Result<void> ProjectEmbedding(const MtpWeights& weights) override;
  Result<void> ProjectStreams(const MtpWeights& weights) override;
  Result<void> AddEmbedding() override;
  Result<void> Head(const Weight& head) override;

 private:
  void Project(ConstMatrix x, const Weight& weight, Matrix out);

  const ModelSpec& config_;
  const CpuContext context_;
  Workspace& w_;
  const Batch batch_;
  const Matrix streams_;
  const ConstMatrix target_;
  const Matrix logits_;
};

}  // namespace kv8
