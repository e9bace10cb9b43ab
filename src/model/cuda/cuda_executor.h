// The model on an NVIDIA GPU.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "model/cuda/cuda_steps.h"
#include "model/cuda/device_memory_plan.h"
#include "model/executor.h"

namespace kv8::cuda {

/// Decode passes are replayed from graphs, one per shape: rows padded to a power of two, context
/// bounds to a power of four. All are captured before the first request. Passes with prompts are
/// enqueued launch by launch. The host waits for the device only where it reads something.
class CudaExecutor final : public Executor {
 public:
  static Result<ExecutorMemory> Plan(const Model& model, const ExecutorLimits& limits);
  static ExecutorMemory SizesOf(const Model& model, const ExecutorLimits& limits);
  static Result<std::unique_ptr<Executor>> Create(const Model& model, const ExecutorLimits& limits);

  ~CudaExecutor() override;

  ExecutorMemory memory() const override { return memory_; }
  void Reset(int slot) override;
  void Forward(std::span<const TokenId> ids, std::span<const SlotRows> items) override;
  Matrix Logits(std::span<const std::int64_t> rows) override;
  bool chooses_tokens() const override { return true; }
  std::span<const TokenId> ChooseTokens(std::span<const std::int64_t> rows,
                                        std::span<const ChoiceRule> rules) override;
  void Rollback(int slot, std::int64_t kept) override;
  void Draft(std::span<const TokenId> ids, std::span<const SlotRows> items,
             std::span<const std::int64_t> sources, StreamSource source) override;
  Matrix DraftLogits(std::span<const std::int64_t> rows) override;
  std::span<const TokenId> BestDraftTokens(std::span<const std::int64_t> rows) override;
  void SaveStreams(std::int64_t row, std::span<float> to) override;
  void LoadStreams(std::span<const float> from, std::int64_t row) override;
  void SaveState(int slot, std::optional<std::int64_t> kept, std::span<std::byte> to) override;
  void LoadState(std::span<const std::byte> from, int slot) override;
  void SavePages(std::span<const PageId> pages, std::span<std::byte> to) override;
  void LoadPages(std::span<const std::byte> from, std::span<const PageId> pages) override;
  void CopyPage(PageId from, PageId to) override;
  void TakeKvMagnitudes(std::span<HeadMagnitudes> to) override;
  void TakeKvMaxima(std::span<std::uint32_t> to) override;
  std::vector<SaturationCount> Saturation() override;

 private:
  /// What a captured graph does.
  enum class Work { kForward, kDraft, kLogits, kDraftLogits, kBest, kDraftBest, kChoose };
  /// Whether it is about the draft's rows.
  static bool IsDraft(Work work) {
    return work == Work::kDraft || work == Work::kDraftLogits || work == Work::kDraftBest;
  }
  struct GraphKey {
    Work work{};
    PassShape shape;
    auto operator<=>(const GraphKey&) const = default;
  };

  CudaExecutor(const Model& model, const ExecutorLimits& limits);
  Result<void> Open();
  Result<void> TakeWeights(const DeviceMemoryPlan& plan, bool tables_on_host);
  Result<void> TakeBuffers();
  Result<void> TakeHostBuffers();
  Result<void> WriteConstants(std::int64_t rows);
  Result<void> TryEveryOp();
  Result<void> CaptureGraphs();

  /// Runs `work` unless the device has failed before, and notes it if it fails now.
  template <class Function>
  void Guard(Function&& work) {
    if (failure_) return;
    Result<void> done = device_->AttachThread();
    if (done.ok()) done = work();
    if (!done.ok()) failure_ = std::move(done).error();
  }
  Result<void> Run(Work work, PassShape shape);
  Result<DeviceGraph*> Captured(Work work, const PassShape& shape);
  Result<void> Enqueue(Work work, const PassShape& shape);
  Result<void> RunForward(std::span<const TokenId> ids, std::span<const SlotRows> items);
  Result<void> RunDraft(std::span<const TokenId> ids, std::span<const SlotRows> items,
                        std::span<const std::int64_t> sources, StreamSource source);
  /// `work` over rows of the last pass; what it leaves for each, at `from`, goes to `to`.
  Result<void> RunHead(Work work, std::span<const std::int64_t> rows, const void* from,
                       const DeviceMemory& to, std::int64_t bytes_per_row);
  Matrix ReadLogits(Work work, std::span<const std::int64_t> rows);
  std::span<const TokenId> ReadTokens(Work work, std::span<const std::int64_t> rows);
  Result<void> SendRules(std::span<const ChoiceRule> rules);
  /// Rows of streams: of the target or the draft, to token_streams or to draft_input.
  enum class Gather { kTargetTokens, kDraftTokens, kTargetDraft, kDraftDraft };
  CopySet GatherSet(Gather gather) const;
  template <class Function>
  Result<void> EachPack(std::span<const PageId> pages, bool to_pack, Function&& move);
  Result<void> Copy(const CopySet& set, std::span<const CopyPair> pairs);
  Result<void> Read(void* to, const void* from, std::int64_t bytes);
  /// Read, and what was read begins at 0 again.
  Result<void> ReadAndClear(void* to, void* from, std::int64_t bytes);
  Result<void> ApplyPending();
  std::int32_t MostSelectionBlocks() const;
  std::int32_t ContextBound(std::int32_t blocks) const;
  std::int32_t TrailEntry(int slot, std::int64_t kept) const {
    return static_cast<std::int32_t>(slot * limits_.drafts + kept - 1);
  }

  const Model& model_;
  const ExecutorLimits limits_;
  const StateLayout layout_;
  const std::int64_t width_;  // S*H
  ExecutorMemory memory_;

  std::unique_ptr<Device> device_;  // outlives all that follows
  DeviceStream stream_;
  std::optional<CudaOps> ops_;
  DeviceMemory weight_memory_, table_memory_, work_memory_, logit_memory_, token_memory_;
  DeviceMemory rule_memory_;  // pinned, as what is read back
  DeviceWeights weights_;
  DeviceWorkspace work_{};
  std::optional<DeviceState> state_;
  std::optional<PassInputs> inputs_;
  std::optional<DeviceModel> parts_;
  std::map<GraphKey, DeviceGraph> graphs_;

  std::vector<CopyPair> resets_, rollbacks_;  // before the next pass
  std::vector<CopyPair> pairs_;
};

}  // namespace kv8::cuda
