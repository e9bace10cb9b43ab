// Documents through the target and the draft head, prefill only, several in a pass, on any device.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "calib/document_queue.h"
#include "kvcache/page_pool.h"
#include "model/executor.h"

namespace kv8 {

/// How large a pass may be. No result depends on it.
struct PassSize {
  std::int64_t rows = 512;  // a multiple of 64, at least 64
  int documents = 4;        // at least 1
};

/// What suits a device: enough rows to use all of it, few enough to keep activations small.
PassSize PreferredPass(DeviceKind device);

/// A document that has been run whole.
struct MeasuredDocument {
  TokenDocument document;
  /// [observed heads], see Executor::TakeKvMaxima; empty where nothing is observed.
  std::vector<std::uint32_t> max_bits;
};

/// Rows of a pass are shared out among as many documents as there are slots: a recurrent state goes
/// through a document's rows one chunk after another, and only those of different documents at the
/// same time. What a document does not need goes to the others, in the corpus's order.
class DocumentRunner {
 public:
  /// What is to be run: the passes are no larger than that.
  struct Work {
    PassSize pass;
    CorpusTotals corpus;
  };
  struct Pass {
    std::int64_t tokens = 0;              // rows of the target; 0: there was nothing to run
    std::vector<MeasuredDocument> ended;  // in the corpus's order
  };

  /// `limits` says all that does not follow from the work: type of the cache, scales, threads.
  /// `model` must outlive the runner. On a device without memory for a pass of that size, passes
  /// are smaller. Errors: those of CreateExecutor.
  static Result<DocumentRunner> Create(DeviceKind device, const Model& model, const Work& work,
                                       KvDType dtype, ExecutorLimits limits);

  /// One pass: every row of the target, and of the draft head all rows but a document's last, which
  /// has no next token to pair with. Goes on with the unfinished documents and, if `may_begin`,
  /// with those of `queue`, and reads ahead there while the device works. Errors: those of
  /// DocumentQueue; what the device says.
  Result<Pass> Run(DocumentQueue& queue, bool may_begin);

  /// No document is unfinished.
  bool idle() const { return running_.empty(); }
  Executor& executor() { return *executor_; }

 private:
  /// A document that is unfinished, or has ended before one that stands before it in the corpus.
  struct Running {
    MeasuredDocument measured;
    int slot = 0;
    std::int64_t done = 0;  // tokens before the pass
    std::int64_t rows = 0;  // in the pass; may be 0
    std::vector<PageId> pages;

    std::int64_t total() const { return std::ssize(measured.document.ids); }
    bool ended() const { return done == total(); }
  };

  DocumentRunner(std::unique_ptr<Executor> executor, const ExecutorLimits& limits);
  Result<void> Fill(DocumentQueue& queue, bool may_begin);
  Result<void> Begin(TokenDocument document);
  void AddRows(Running& document, std::int64_t most);
  void RunTarget();
  void RunDraft();
  void RaiseMaxima();
  Pass End();

  std::unique_ptr<Executor> executor_;
  ExecutorLimits limits_;
  PagePool pages_;
  std::vector<int> free_slots_;
  std::deque<Running> running_;  // in the corpus's order
  std::int64_t rows_left_ = 0;   // of the pass
  std::vector<TokenId> ids_;
  std::vector<SlotRows> items_;
  std::vector<std::int64_t> sources_;
  std::vector<std::uint32_t> max_bits_;  // [slots, observed heads]
};

}  // namespace kv8
