// What the engine needs of one model on one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/token_choice.h"
#include "checkpoint/tensor_files.h"
#include "kv8/error.h"
#include "kv8/statistics.h"
#include "kv8/types.h"
#include "kvcache/kv_cache.h"
#include "model/batch.h"
#include "model/observer.h"
#include "ops/head_magnitudes.h"
#include "tensor/model_weights.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// What an executor is built for.
struct ExecutorLimits {
  KvCachePlan cache;
  std::int64_t sequence_pages = 0;  // most of one sequence
  int slots = 1;                    // recurrent states
  int drafts = 0;                   // most per sequence and step
  std::int64_t max_rows = 512;      // of one pass
  std::int64_t logit_rows = 1;      // of one call
  std::int64_t tokens = 0;          // ids from which it chooses: the first so many; 0: all
  int threads = 1;
  bool with_draft = false;              // the draft head runs too
  std::vector<StoreScales> scales;      // one per K/V layer with kE4M3, else empty
  bool observe_kv = false;              // counts what is stored: TakeKvMagnitudes, TakeKvMaxima
  ForwardObserver* observer = nullptr;  // is shown what passes of the target compute; CPU alone
  bool prefill_only = false;            // no row will be in decode and no logit asked for
  std::string backend;                  // of the device's ops, see EngineOptions; empty: the first
  std::optional<std::int64_t> device_memory;  // see EngineOptions
  /// Rows of n-gram tables are read from the files, and so many bytes of them kept; absent: they
  /// are used where they are mapped. On the CPU alone.
  std::optional<std::int64_t> table_cache;
  const TensorFiles* files = nullptr;  // that the model lies in; needed with table_cache
};

/// Bytes that an executor takes beside the pools, by owner; known before it takes them.
struct ExecutorMemory {
  std::int64_t weights = 0;      // copies on a device; the CPU computes on the mapped files
  std::int64_t tables = 0;       // likewise of embedding and n-gram tables; on the CPU, rows kept
  std::int64_t states = 0;       // recurrent states of all slots
  std::int64_t rollback = 0;     // states kept for Rollback
  std::int64_t activations = 0;  // of one pass, logits among them; what is counted
  std::int64_t scratch = 0;      // of the CPU's ops; a GPU's is among the activations
};

/// Heads that are counted with ExecutorLimits::observe_kv.
inline std::int64_t ObservedHeads(const KvCachePlan& cache) {
  return cache.layers * 2 * cache.kv.kv_heads;
}

/// Consecutive tokens of the sequence in one slot; items of a pass follow each other in its rows.
struct SlotRows {
  int slot = 0;
  std::int64_t rows = 0;
  std::int64_t first_position = 0;  // in prefill a multiple of 64; so is the end, or the prompt's
  Phase phase = Phase::kPrefill;    // in prefill rows may share work: NUM-32
  std::span<const PageId> pages;    // cover every position up to the last row's
};

/// What ChooseTokens says about a row with a logit that is NaN or infinite.
inline constexpr TokenId kNoToken = -1;

/// Where a draft pass takes streams from.
enum class StreamSource {
  kTarget,  // rows of the last Forward
  kDraft,   // rows of the last Draft
};

/// Owns everything that a run needs besides tokens and numbers: weights as its device wants them,
/// K/V and index pools, one recurrent state per slot, activations. Talks in slots, rows and pages;
/// V is the vocabulary.
///
/// A device may fail at any time. From then on failure() is set, calls do nothing and their results
/// have no meaning. The caller asks once after a step, not after each call.
class Executor {
 public:
  virtual ~Executor() = default;

  /// The failure that has ended all work.
  const std::optional<Error>& failure() const { return failure_; }
  /// What was taken.
  virtual ExecutorMemory memory() const = 0;

  /// The slot's sequence is empty.
  virtual void Reset(int slot) = 0;
  /// Runs the target over one row per id; each slot appears once, those in decode first. Pools and
  /// states advance. States after each row but the last of an item in decode are kept until the
  /// next call, for Rollback.
  virtual void Forward(std::span<const TokenId> ids, std::span<const SlotRows> items) = 0;
  /// Logits [rows.size(),V] of rows of the last Forward. Valid until the next call of this or of
  /// DraftLogits; may be changed in place.
  virtual Matrix Logits(std::span<const std::int64_t> rows) = 0;
  /// Whether tokens can be chosen where the logits are. Else Logits is the only way: they are in
  /// host memory anyway.
  virtual bool chooses_tokens() const { return false; }
  /// The token that each row's rule says, or kNoToken. Valid until the next call of this or of
  /// BestDraftTokens.
  virtual std::span<const TokenId> ChooseTokens(std::span<const std::int64_t> rows,
                                                std::span<const ChoiceRule> rules) {
    (void)rows, (void)rules;
    return {};
  }
  /// Back to the recurrent state after the first `kept` rows of the slot in the last Forward, fewer
  /// than there were.
  virtual void Rollback(int slot, std::int64_t kept) = 0;

  /// Runs the draft head: ids[i] is the token after row i, sources[i] the row that holds row i's
  /// streams.
  virtual void Draft(std::span<const TokenId> ids, std::span<const SlotRows> items,
                     std::span<const std::int64_t> sources, StreamSource source) = 0;
  /// The same as Logits for rows of the last Draft.
  virtual Matrix DraftLogits(std::span<const std::int64_t> rows) = 0;
  /// The most likely token of rows of the last Draft, ties to the lower id, or kNoToken. Empty
  /// unless chooses_tokens.
  virtual std::span<const TokenId> BestDraftTokens(std::span<const std::int64_t> rows) {
    (void)rows;
    return {};
  }

  /// Streams of one row of the last Forward, to host memory and back.
  virtual void SaveStreams(std::int64_t row, std::span<float> to) = 0;
  virtual void LoadStreams(std::span<const float> from, std::int64_t row) = 0;
  /// A slot's state, StateLayout::bytes(), to host memory and back: as it is, or with `kept` its
  /// recurrent part after that many rows of the last Forward, fewer than there were.
  virtual void SaveState(int slot, std::optional<std::int64_t> kept, std::span<std::byte> to) = 0;
  virtual void LoadState(std::span<const std::byte> from, int slot) = 0;
  /// Whole pages of every pool, KvCachePlan::page_bytes() each, to host memory and back.
  virtual void SavePages(std::span<const PageId> pages, std::span<std::byte> to) = 0;
  virtual void LoadPages(std::span<const std::byte> from, std::span<const PageId> pages) = 0;
  virtual void CopyPage(PageId from, PageId to) = 0;

  /// With ExecutorLimits::observe_kv, what was stored since the last call, and starts anew: per K/V
  /// layer 2 * kv_heads heads, of K, then of V.
  virtual void TakeKvMagnitudes(std::span<HeadMagnitudes> to) = 0;
  /// Likewise for each slot [slots,ObservedHeads]: the bits of the largest |x| of its rows as FP32;
  /// from infinity's on, a value was not finite.
  virtual void TakeKvMaxima(std::span<std::uint32_t> to) = 0;
  /// Clipped values so far, per K/V layer.
  virtual std::vector<SaturationCount> Saturation() = 0;
  virtual NgramTableStatistics ngram_table() const { return {}; }

 protected:
  std::optional<Error> failure_;
};

/// What an executor on `device` will take. Errors: those of CheckLimits; kUnsupported for what else
/// the device cannot run.
Result<ExecutorMemory> PlanExecutor(DeviceKind device, const Model& model,
                                    const ExecutorLimits& limits);

/// The same for a model that the device has no kernels for yet, by the same code: sizes alone.
/// Errors: kUnsupported for a backend that does not exist.
Result<ExecutorMemory> SizeExecutor(DeviceKind device, const Model& model,
                                    const ExecutorLimits& limits);

/// ExecutorMemory::activations on a GPU but for its states' part: no weight has a part in them.
std::int64_t GpuActivationBytes(const ModelSpec& spec, const ExecutorLimits& limits);

/// `model` must outlive the executor. Errors: those of PlanExecutor; kResourceExhausted with the
/// numbers.
Result<std::unique_ptr<Executor>> CreateExecutor(DeviceKind device, const Model& model,
                                                 const ExecutorLimits& limits);

}  // namespace kv8
