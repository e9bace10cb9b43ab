// The model on the CPU.
#pragma once

#include <vector>

#include "base/aligned.h"
#include "base/thread_pool.h"
#include "kvcache/sequence_state.h"
#include "model/cpu/cpu_steps.h"
#include "model/executor.h"

namespace kv8 {

class CpuExecutor final : public Executor {
 public:
  static Result<std::unique_ptr<Executor>> Create(const Model& model, const ExecutorLimits& limits);
  static Result<ExecutorMemory> Plan(const Model& model, const ExecutorLimits& limits);

  ExecutorMemory memory() const override;
  void Reset(int slot) override { State(slot).Reset(); }
  void Forward(std::span<const TokenId> ids, std::span<const SlotRows> items) override;
  Matrix Logits(std::span<const std::int64_t> rows) override;
  void Rollback(int slot, std::int64_t kept) override;
  void Draft(std::span<const TokenId> ids, std::span<const SlotRows> items,
             std::span<const std::int64_t> sources, StreamSource source) override;
  Matrix DraftLogits(std::span<const std::int64_t> rows) override;
  void SaveStreams(std::int64_t row, std::span<float> to) override;
  void LoadStreams(std::span<const float> from, std::int64_t row) override;
  void SaveState(int slot, std::optional<std::int64_t> kept, std::span<std::byte> to) override;
  void LoadState(std::span<const std::byte> from, int slot) override { State(slot).CopyIn(from); }
  void SavePages(std::span<const PageId> pages, std::span<std::byte> to) override;
  void LoadPages(std::span<const std::byte> from, std::span<const PageId> pages) override;
  void CopyPage(PageId from, PageId to) override { cache_.CopyPage(from, to); }
  void TakeKvMagnitudes(std::span<HeadMagnitudes> to) override;
  void TakeKvMaxima(std::span<std::uint32_t> to) override;
  std::vector<SaturationCount> Saturation() override { return cache_.saturation(); }
  NgramTableStatistics ngram_table() const override {
    return table_rows_ ? table_rows_->statistics() : NgramTableStatistics{};
  }

 private:
  CpuExecutor(const Model& model, const ExecutorLimits& limits, const OpTable& ops, KvCache cache,
              std::unique_ptr<TableRows> table_rows);

  SequenceState& State(int slot) { return states_[static_cast<std::size_t>(slot)]; }
  /// The states kept for the first `count` rows of a slot.
  std::span<SequenceState> Trail(int slot, std::int64_t count);
  std::span<const SequenceRows> Sequences(std::span<const SlotRows> items, bool with_trail);
  CpuContext Context() {
    return {.ops = ops_,
            .op_context = {pool_, scratch_.scratch()},
            .cache = cache_,
            .workspace = workspace_,
            .magnitudes = magnitudes_};
  }
  /// Logits of the rows of `streams`.
  Matrix Head(const AlignedVector<float>& streams, std::span<const std::int64_t> rows,
              const HyperConnectionWeights& mixer);
  void Note(Result<void> done) {
    if (!done.ok()) failure_ = std::move(done).error();
  }
  /// Copies the given rows of `streams` to token_streams_.
  Matrix Gather(const AlignedVector<float>& streams, std::span<const std::int64_t> rows,
                AlignedVector<float>& to) const;

  const Model& model_;
  const OpTable& ops_;
  const std::int64_t width_;  // S*H, of a row's residual streams
  const StateLayout layout_, trail_layout_;
  const int drafts_;
  ForwardObserver* const observer_;
  ThreadPool pool_;
  ScratchMemory scratch_;
  KvCache cache_;
  Workspace workspace_;
  std::unique_ptr<TableRows> table_rows_;  // null: tables are used where they are mapped
  std::vector<SequenceState> states_;      // by slot
  std::vector<SequenceState> trails_;      // by slot, `drafts_` each
  std::vector<SequenceRows> sequences_;
  AlignedVector<float> streams_;            // [max_rows,S*H]
  AlignedVector<float> token_streams_;      // [logit_rows,S*H]
  AlignedVector<float> logits_;             // [logit_rows,V]
  AlignedVector<float> draft_input_;        // [max_rows,S*H]; empty without a draft head
  AlignedVector<float> draft_streams_;      // [max_rows,S*H]; likewise
  std::vector<HeadMagnitudes> magnitudes_;  // [observed heads]; empty: nothing is counted
  std::vector<std::uint32_t> max_bits_;     // [slots,observed heads]
};

}  // namespace kv8
