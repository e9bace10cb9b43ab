#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "engine/options.h"
#include "model/executor.h"
#include "model/loaded_model.h"
#include "proof/attention.h"
#include "proof/attention_rows.h"
#include "proof/cache_losses.h"
#include "proof/stored_values.h"

namespace kv8 {
namespace {

constexpr std::size_t kMostTokens = 8192;  // of an item
constexpr std::int64_t kPassRows = 2 * kPageTokens;

using Sample = std::vector<std::span<const TokenId>>;

/// The longest item of each category.
Sample SampleOf(const std::vector<EvaluationItem>& items) {
  std::map<std::string, std::span<const TokenId>> longest;
  for (const EvaluationItem& item : items) {
    std::span<const TokenId>& best = longest[item.category];
    if (item.ids.size() > best.size()) best = item.ids;
  }
  Sample sample;
  for (const auto& [category, ids] : longest) {
    sample.push_back(ids.first(std::min(kMostTokens, ids.size())));
  }
  return sample;
}

/// Keeps what the attention layers of a pass show.
class PassRecord final : public ForwardObserver {
 public:
  void BeginPass() {
    layers_.clear();
    if (stored_) stored_->BeginPass();
  }
  void CountStored(std::span<const StoreScales> scales, int kv_heads) {
    stored_.emplace(scales, kv_heads);
  }
  const std::vector<ObservedLayer>& layers() const { return layers_; }
  const std::optional<StoredValues>& stored() const { return stored_; }

  void OnKeyValue(int layer, ConstMatrix k, ConstMatrix v) override {
    if (stored_) stored_->Add(layer, k, v);
  }
  void OnSelection(int layer, const BlockSelection& selection) override {
    ObservedLayer& seen = layers_.emplace_back();
    seen.number = layer;
    seen.counts.assign(selection.counts.begin(), selection.counts.end());
    seen.blocks.assign(selection.blocks.begin(), selection.blocks.end());
    seen.budget = std::ssize(seen.blocks) / std::ssize(seen.counts);
  }
  void OnAttention(int /*layer*/, ConstMatrix output) override {
    ObservedLayer& seen = layers_.back();
    seen.width = output.cols;
    for (std::int64_t row = 0; row < output.rows; ++row) {
      const auto values = output.row(row);
      seen.output.insert(seen.output.end(), values.begin(), values.end());
    }
  }

 private:
  std::vector<ObservedLayer> layers_;
  std::optional<StoredValues> stored_;
};

/// One configuration of the target on the CPU, with a cache for one sequence.
class ObservedRun {
 public:
  static Result<std::unique_ptr<ObservedRun>> Create(const EngineOptions& engine,
                                                     const ArmSpec& arm, std::int64_t longest) {
    const ModelSource source{
        .dir = engine.model,
        .overlays = engine.overlays,
        .scale_pack = arm.scale_pack,
        .kv_dtype = arm.dtype,
        .lineage = {.accept = engine.accept_lineage,
                    .hash = {.recorded_only = engine.trust_weights, .threads = engine.threads}}};
    KV8_ASSIGN_OR_RETURN(LoadedModel model, LoadedModel::Open(source));
    auto run = std::unique_ptr<ObservedRun>(new ObservedRun(std::move(model), longest));
    KV8_RETURN_IF_ERROR(run->Start(engine, arm.dtype));
    return run;
  }

  const ModelSpec& spec() const { return model_.model().spec; }
  const PassRecord& record() const { return record_; }
  void Reset() { executor_->Reset(0); }
  Result<void> Forward(std::span<const TokenId> ids, std::int64_t first_position) {
    record_.BeginPass();
    const SlotRows rows{.rows = std::ssize(ids), .first_position = first_position, .pages = pages_};
    executor_->Forward(ids, {&rows, 1});
    if (executor_->failure()) return *executor_->failure();
    return {};
  }

 private:
  ObservedRun(LoadedModel model, std::int64_t longest)
      : model_(std::move(model)), pages_(static_cast<std::size_t>(CeilDiv(longest, kPageTokens))) {
    for (std::size_t i = 0; i < pages_.size(); ++i) pages_[i] = static_cast<PageId>(i);
  }

  Result<void> Start(const EngineOptions& engine, KvDType dtype) {
    const std::int64_t pages = std::ssize(pages_);
    if (dtype == KvDType::kE4M3) record_.CountStored(model_.scales(), spec().qsa.kv_heads);
    const ExecutorLimits limits{.cache = KvCachePlan::ForTokens(
                                    spec().qsa, dtype, spec().KvLayers(false), pages * kPageTokens),
                                .sequence_pages = pages,
                                .max_rows = kPassRows,
                                .threads = ThreadsOf(engine),
                                .scales = model_.scales(),
                                .observer = &record_,
                                .prefill_only = true};
    KV8_ASSIGN_OR_RETURN(executor_, CreateExecutor(DeviceKind::kCpu, model_.model(), limits));
    return {};
  }

  LoadedModel model_;
  std::vector<PageId> pages_;
  PassRecord record_;
  std::unique_ptr<Executor> executor_;
};

/// A and B, pass by pass: neither is kept longer.
class SideBySide {
 public:
  SideBySide(ObservedRun& a, ObservedRun& b) : a_(a), b_(b) {}

  Result<void> Run(std::span<const TokenId> ids, const TokensDone& done) {
    a_.Reset();
    b_.Reset();
    for (std::size_t begin = 0; begin < ids.size(); begin += kPassRows) {
      const auto rows = ids.subspan(begin, std::min<std::size_t>(kPassRows, ids.size() - begin));
      const auto position = static_cast<std::int64_t>(begin);
      KV8_RETURN_IF_ERROR(a_.Forward(rows, position));
      KV8_RETURN_IF_ERROR(b_.Forward(rows, position));
      Compare(position);
      if (!done(2 * rows.size())) return StoppedError();
    }
    tokens_ += ids.size();
    return {};
  }

  AttentionResult Found() const {
    AttentionResult result{.tokens = tokens_};
    for (const AttentionSums& sums : sums_) result.layers.push_back(sums.Mean());
    if (b_.record().stored()) result.sides = b_.record().stored()->sides();
    return result;
  }

 private:
  void Compare(std::int64_t position) {
    const auto& of_a = a_.record().layers();
    const auto& of_b = b_.record().layers();
    sums_.resize(of_a.size());
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      sums_[i].Add(a_.spec().qsa, position, of_a[i], of_b[i]);
    }
  }

  ObservedRun& a_;
  ObservedRun& b_;
  std::vector<AttentionSums> sums_;  // one per attention layer
  std::uint64_t tokens_ = 0;
};

}  // namespace

std::uint64_t AttentionTokensOf(const std::vector<EvaluationItem>& items) {
  std::uint64_t tokens = 0;
  for (const auto& ids : SampleOf(items)) tokens += 2 * ids.size();
  return tokens;
}

Result<AttentionResult> MeasureAttention(const VerifyOptions& options,
                                         const MeasuredCorpus& corpus) {
  const Sample sample = SampleOf(corpus.items);
  std::size_t longest = 1;
  for (const auto& ids : sample) longest = std::max(longest, ids.size());
  const auto tokens = static_cast<std::int64_t>(longest);
  KV8_ASSIGN_OR_RETURN(const auto a, ObservedRun::Create(options.engine, options.a, tokens));
  KV8_ASSIGN_OR_RETURN(const auto b, ObservedRun::Create(options.engine, options.b, tokens));
  SideBySide both(*a, *b);
  for (const auto& ids : sample) KV8_RETURN_IF_ERROR(both.Run(ids, corpus.done));
  return both.Found();
}

}  // namespace kv8
