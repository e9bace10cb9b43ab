#include "calib/document_runner.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace kv8 {
namespace {

/// Rows below which a smaller pass would save little memory.
constexpr std::int64_t kFewestRows = 512;

/// No larger than the corpus needs.
PassSize Fit(const PassSize& preferred, const CorpusTotals& corpus) {
  const auto tokens = static_cast<std::int64_t>(corpus.tokens);
  const auto documents = static_cast<std::int64_t>(corpus.documents);
  return {.rows = std::min(preferred.rows, CeilDiv(tokens, kPageTokens) * kPageTokens),
          .documents = static_cast<int>(std::min<std::int64_t>(preferred.documents, documents))};
}

/// Pages: the unfinished document may be the longest; what else is in a pass has a page for each
/// 64 of its rows, or for fewer at a document's end.
ExecutorLimits LimitsOf(const Model& model, const PassSize& pass, const CorpusTotals& corpus,
                        KvDType dtype, ExecutorLimits limits) {
  limits.sequence_pages = CeilDiv(static_cast<std::int64_t>(corpus.longest), kPageTokens);
  const std::int64_t pages = limits.sequence_pages + pass.rows / kPageTokens + pass.documents;
  limits.cache = KvCachePlan::ForTokens(
      model.spec.qsa, dtype, model.spec.KvLayers(/*with_draft=*/true), pages * kPageTokens);
  limits.slots = pass.documents;
  limits.max_rows = pass.rows;
  limits.prefill_only = true;
  return limits;
}

}  // namespace

PassSize PreferredPass(DeviceKind device) {
  // A GPU's pass costs its launches, whatever its rows; a CPU's cores are busy from 512 rows on.
  if (device == DeviceKind::kCuda) return {.rows = 4096, .documents = 16};
  return {.rows = 512, .documents = 4};
}

Result<DocumentRunner> DocumentRunner::Create(DeviceKind device, const Model& model,
                                              const Work& work, KvDType dtype,
                                              ExecutorLimits limits) {
  for (PassSize pass = Fit(work.pass, work.corpus);; pass.rows /= 2) {
    limits = LimitsOf(model, pass, work.corpus, dtype, std::move(limits));
    auto executor = CreateExecutor(device, model, limits);
    if (executor.ok()) return DocumentRunner(std::move(executor).value(), limits);
    const bool may_fit =
        executor.error().code == Code::kResourceExhausted && pass.rows % (2 * kFewestRows) == 0;
    if (!may_fit) return std::move(executor).error();
  }
}

DocumentRunner::DocumentRunner(std::unique_ptr<Executor> executor, const ExecutorLimits& limits)
    : executor_(std::move(executor)), limits_(limits), pages_(limits.cache.pages) {
  for (int slot = limits.slots; slot-- > 0;) free_slots_.push_back(slot);
  if (!limits.observe_kv) return;
  max_bits_.resize(static_cast<std::size_t>(limits.slots * ObservedHeads(limits.cache)));
}

Result<DocumentRunner::Pass> DocumentRunner::Run(DocumentQueue& queue, bool may_begin) {
  KV8_RETURN_IF_ERROR(Fill(queue, may_begin));
  if (running_.empty()) return Pass{};
  RunTarget();
  if (limits_.with_draft) RunDraft();
  KV8_RETURN_IF_ERROR(queue.ReadAhead(static_cast<std::size_t>(limits_.slots), limits_.max_rows));
  if (limits_.observe_kv) RaiseMaxima();
  if (executor_->failure()) return *executor_->failure();
  return End();
}

/// Rows that a document with so many tokens to run gets: all, or whole pages.
std::int64_t DocumentRunner::RowsOf(std::int64_t tokens_left) const {
  return tokens_left <= rows_left_ ? tokens_left : rows_left_ - rows_left_ % kPageTokens;
}

Result<void> DocumentRunner::Fill(DocumentQueue& queue, bool may_begin) {
  rows_left_ = limits_.max_rows;
  for (Running& document : running_) KV8_RETURN_IF_ERROR(Place(document));
  while (may_begin && !free_slots_.empty() && (running_.empty() || running_.back().ends())) {
    KV8_ASSIGN_OR_RETURN(const TokenDocument* const next, queue.Front());
    if (next == nullptr || RowsOf(std::ssize(next->ids)) == 0) break;
    KV8_RETURN_IF_ERROR(Begin(queue.Pop()));
  }
  return {};
}

Result<void> DocumentRunner::Begin(TokenDocument document) {
  Running& added = running_.emplace_back();
  added.measured.document = std::move(document);
  if (limits_.observe_kv) {
    added.measured.max_bits.resize(static_cast<std::size_t>(ObservedHeads(limits_.cache)));
  }
  added.slot = free_slots_.back();
  free_slots_.pop_back();
  executor_->Reset(added.slot);
  return Place(added);
}

Result<void> DocumentRunner::Place(Running& document) {
  document.rows = RowsOf(document.total() - document.done);
  rows_left_ -= document.rows;
  const std::int64_t needed = CeilDiv(document.done + document.rows, kPageTokens);
  KV8_ASSIGN_OR_RETURN(const std::vector<PageId> added,
                       pages_.Allocate(needed - std::ssize(document.pages)));
  document.pages.insert(document.pages.end(), added.begin(), added.end());
  return {};
}

void DocumentRunner::RunTarget() {
  ids_.clear();
  items_.clear();
  for (const Running& document : running_) {
    const auto first = document.measured.document.ids.begin() + document.done;
    ids_.insert(ids_.end(), first, first + document.rows);
    items_.push_back({.slot = document.slot,
                      .rows = document.rows,
                      .first_position = document.done,
                      .pages = document.pages});
  }
  executor_->Forward(ids_, items_);
}

void DocumentRunner::RunDraft() {
  ids_.clear();
  items_.clear();
  sources_.clear();
  std::int64_t row = 0;  // of the target
  for (const Running& document : running_) {
    const std::int64_t pairs = std::min(document.rows, document.total() - 1 - document.done);
    const auto next = document.measured.document.ids.begin() + document.done + 1;
    if (pairs > 0) {
      ids_.insert(ids_.end(), next, next + pairs);
      items_.push_back({.slot = document.slot,
                        .rows = pairs,
                        .first_position = document.done,
                        .pages = document.pages});
    }
    for (std::int64_t i = 0; i < pairs; ++i) sources_.push_back(row + i);
    row += document.rows;
  }
  if (!items_.empty()) executor_->Draft(ids_, items_, sources_, StreamSource::kTarget);
}

void DocumentRunner::RaiseMaxima() {
  executor_->TakeKvMaxima(max_bits_);
  for (Running& document : running_) {
    std::vector<std::uint32_t>& to = document.measured.max_bits;
    const auto from = max_bits_.begin() + document.slot * std::ssize(to);
    std::transform(to.begin(), to.end(), from, to.begin(),
                   [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
  }
}

/// Takes what has ended out of the pass.
DocumentRunner::Pass DocumentRunner::End() {
  Pass pass;
  for (Running& document : running_) {
    pass.tokens += document.rows;
    document.done += document.rows;
    if (document.done < document.total()) continue;  // the last
    pages_.Free(document.pages);
    free_slots_.push_back(document.slot);
    pass.ended.push_back(std::move(document.measured));
  }
  running_.erase(running_.begin(), running_.begin() + std::ssize(pass.ended));
  return pass;
}

}  // namespace kv8
