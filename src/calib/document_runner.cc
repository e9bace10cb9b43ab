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

bool MayShrink(const PassSize& pass) {
  return pass.rows > kFewestRows || pass.documents > 1;
}

/// For a device without memory for `pass`.
PassSize Smaller(const PassSize& pass) {
  const std::int64_t half = pass.rows / 2 / kPageTokens * kPageTokens;
  return {.rows = std::max(std::min(pass.rows, kFewestRows), half),
          .documents = std::max(1, pass.documents / 2)};
}

/// Pages for as many documents as there are slots, each the longest, or for the whole corpus.
ExecutorLimits LimitsOf(const Model& model, const PassSize& pass, const CorpusTotals& corpus,
                        KvDType dtype, ExecutorLimits limits) {
  limits.sequence_pages = CeilDiv(static_cast<std::int64_t>(corpus.longest), kPageTokens);
  const auto all = static_cast<std::int64_t>(corpus.tokens / kPageTokens + corpus.documents);
  const std::int64_t pages = std::min(pass.documents * limits.sequence_pages, all);
  limits.cache = KvCachePlan::ForTokens(
      model.spec.qsa, dtype, model.spec.KvLayers(/*with_draft=*/true), pages * kPageTokens);
  limits.slots = pass.documents;
  limits.max_rows = pass.rows;
  limits.prefill_only = true;
  return limits;
}

}  // namespace

PassSize PreferredPass(DeviceKind device) {
  // A GPU's pass costs its launches and its longest chain of chunks, whatever its rows; a CPU's
  // cores are busy from 512 rows on, and a second document fills what the end of one leaves.
  if (device == DeviceKind::kCuda) return {.rows = 4096, .documents = 16};
  return {.rows = 512, .documents = 2};
}

Result<DocumentRunner> DocumentRunner::Create(DeviceKind device, const Model& model,
                                              const Work& work, KvDType dtype,
                                              ExecutorLimits limits) {
  for (PassSize pass = Fit(work.pass, work.corpus);; pass = Smaller(pass)) {
    limits = LimitsOf(model, pass, work.corpus, dtype, std::move(limits));
    auto executor = CreateExecutor(device, model, limits);
    if (executor.ok()) return DocumentRunner(std::move(executor).value(), limits);
    if (executor.error().code != Code::kResourceExhausted || !MayShrink(pass)) {
      return std::move(executor).error();
    }
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

Result<void> DocumentRunner::Fill(DocumentQueue& queue, bool may_begin) {
  rows_left_ = limits_.max_rows;
  const std::int64_t share = std::max(kPageTokens, limits_.max_rows / limits_.slots);
  for (Running& document : running_) {
    document.rows = 0;
    AddRows(document, share);
  }
  while (may_begin && !free_slots_.empty() && rows_left_ > 0) {
    KV8_ASSIGN_OR_RETURN(const TokenDocument* const next, queue.Front());
    if (next == nullptr) break;
    const std::int64_t tokens = std::ssize(next->ids);
    if (tokens > rows_left_ && rows_left_ < kPageTokens) break;
    // Alone it has all pages, or Begin says that they are too few.
    if (!running_.empty() && CeilDiv(tokens, kPageTokens) > pages_.free_count()) break;
    KV8_RETURN_IF_ERROR(Begin(queue.Pop()));
    AddRows(running_.back(), share);
  }
  for (Running& document : running_) AddRows(document, rows_left_);
  return {};
}

/// Takes a slot and the pages of the whole document.
Result<void> DocumentRunner::Begin(TokenDocument document) {
  Running added;
  KV8_ASSIGN_OR_RETURN(added.pages,
                       pages_.Allocate(CeilDiv(std::ssize(document.ids), kPageTokens)));
  if (limits_.observe_kv) {
    added.measured.max_bits.resize(static_cast<std::size_t>(ObservedHeads(limits_.cache)));
  }
  added.measured.document = std::move(document);
  added.slot = free_slots_.back();
  free_slots_.pop_back();
  executor_->Reset(added.slot);
  running_.push_back(std::move(added));
  return {};
}

/// Of the pass's, at most so many: all that are left of the document, or whole pages.
void DocumentRunner::AddRows(Running& document, std::int64_t most) {
  const std::int64_t left = document.total() - document.done - document.rows;
  const std::int64_t may = std::min(most, rows_left_);
  const std::int64_t rows = left <= may ? left : may - may % kPageTokens;
  document.rows += rows;
  rows_left_ -= rows;
}

void DocumentRunner::RunTarget() {
  ids_.clear();
  items_.clear();
  for (const Running& document : running_) {
    if (document.rows == 0) continue;
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
    if (pairs > 0) {
      const auto next = document.measured.document.ids.begin() + document.done + 1;
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
    if (document.rows == 0) continue;
    std::vector<std::uint32_t>& to = document.measured.max_bits;
    const auto from = max_bits_.begin() + document.slot * std::ssize(to);
    std::transform(to.begin(), to.end(), from, to.begin(),
                   [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
  }
}

/// Hands on what has ended, in the corpus's order.
DocumentRunner::Pass DocumentRunner::End() {
  Pass pass;
  for (Running& document : running_) {
    pass.tokens += document.rows;
    document.done += document.rows;
    if (document.rows == 0 || !document.ended()) continue;
    pages_.Free(document.pages);
    free_slots_.push_back(document.slot);
  }
  while (!running_.empty() && running_.front().ended()) {
    pass.ended.push_back(std::move(running_.front().measured));
    running_.pop_front();
  }
  return pass;
}

}  // namespace kv8
