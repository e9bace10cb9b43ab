#include "support/executor_run.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/checked.h"
#include "device/device.h"
#include "ops/cuda/device_code.h"
#include "support/golden.h"
#include "support/or_throw.h"

namespace kv8::test {
namespace {

constexpr std::int64_t kLogitRows = 32;
constexpr std::int64_t kMaxChunk = 4096;

}  // namespace

std::optional<std::string> WhyUnavailable(DeviceKind device) {
  if (device == DeviceKind::kCpu) return std::nullopt;
  if (cuda::EmbeddedDeviceCode().empty()) return "this build has no device code";
  const auto devices = Device::List();
  if (!devices.ok()) return devices.error().ToString();
  return std::nullopt;
}

ExecutorRun::ExecutorRun(const ExecutorRunOptions& options) {
  model_ = std::make_unique<const LoadedModel>(
      OrThrow(LoadedModel::Open({.dir = BundledModel(),
                                 .scale_pack = options.scale_pack,
                                 .kv_dtype = options.kv_dtype,
                                 .with_draft = options.with_draft})));
  ExecutorLimits limits;
  limits.cache =
      KvCachePlan::ForTokens(config().qsa, options.kv_dtype,
                             model_->model().spec.KvLayers(options.with_draft), options.capacity);
  limits.sequence_pages = limits.cache.pages;
  limits.max_rows = kMaxChunk;
  limits.logit_rows = kLogitRows;
  limits.threads = 1;
  limits.scales = model_->scales();
  limits.with_draft = model_->with_draft();
  if (options.device == DeviceKind::kCuda) {
    const char* const backend = std::getenv("KV8_TEST_BACKEND");
    limits.backend = backend != nullptr ? backend : options.device_backend;
  }
  if (options.tables_on_host) {
    const ExecutorMemory plan = OrThrow(PlanExecutor(options.device, model_->model(), limits));
    limits.device_memory = plan.weights + plan.tables + plan.states + plan.rollback +
                           plan.activations + limits.cache.kv_bytes() + limits.cache.index_bytes() -
                           1;
  }
  executor_ = OrThrow(CreateExecutor(options.device, model_->model(), limits));
  for (std::int64_t i = limits.cache.pages; i-- > 0;) {  // not in the order of the tokens
    pages_.push_back(static_cast<PageId>(i));
  }
  executor_->Reset(0);
}

SlotRows ExecutorRun::Rows(std::int64_t first, std::int64_t count, Phase phase) const {
  const std::int64_t pages = CeilDiv(first + count, kPageTokens);
  return {.slot = 0,
          .rows = count,
          .first_position = first,
          .phase = phase,
          .pages = std::span(pages_).first(static_cast<std::size_t>(pages))};
}

void ExecutorRun::Check() const {
  if (executor_->failure()) throw std::runtime_error(executor_->failure()->ToString());
}

void ExecutorRun::Append(bool draft, std::int64_t count, std::vector<float>& logits) {
  for (std::int64_t first = 0; first < count; first += kLogitRows) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(kLogitRows, count - first)));
    std::iota(rows.begin(), rows.end(), first);
    const Matrix part = draft ? executor_->DraftLogits(rows) : executor_->Logits(rows);
    logits.insert(logits.end(), part.data, part.data + part.rows * part.cols);
  }
  Check();
}

std::vector<float> ExecutorRun::Prefill(std::span<const TokenId> ids, std::int64_t chunk) {
  std::vector<float> logits;
  while (!ids.empty()) {
    last_rows_ = std::min(chunk, std::ssize(ids));
    const SlotRows rows = Rows(position_, last_rows_, Phase::kPrefill);
    executor_->Forward(ids.first(static_cast<std::size_t>(last_rows_)), {&rows, 1});
    Append(false, last_rows_, logits);
    ids = ids.subspan(static_cast<std::size_t>(last_rows_));
    position_ += last_rows_;
  }
  return logits;
}

std::vector<float> ExecutorRun::Decode(TokenId id) {
  std::vector<float> logits;
  last_rows_ = 1;
  const SlotRows rows = Rows(position_++, 1, Phase::kDecode);
  executor_->Forward({&id, 1}, {&rows, 1});
  Append(false, 1, logits);
  return logits;
}

std::vector<float> ExecutorRun::Streams(std::int64_t row) {
  std::vector<float> streams(static_cast<std::size_t>(config().streams) *
                             static_cast<std::size_t>(config().hidden));
  executor_->SaveStreams(row, streams);
  Check();
  return streams;
}

std::vector<float> ExecutorRun::DraftPrefill(std::span<const TokenId> ids, std::int64_t chunk) {
  std::vector<float> logits;
  for (std::int64_t done = 0; done < std::ssize(ids); done += chunk) {
    const std::int64_t count = std::min(chunk, std::ssize(ids) - done);
    const auto at = static_cast<std::size_t>(done);
    Prefill(ids.subspan(at, static_cast<std::size_t>(count)), chunk);
    const std::int64_t drafts = std::min(count, std::ssize(ids) - done - 1);
    if (drafts == 0) break;
    std::vector<std::int64_t> sources(static_cast<std::size_t>(drafts));
    std::iota(sources.begin(), sources.end(), 0);
    const SlotRows rows = Rows(done, drafts, Phase::kDecode);
    executor_->Draft(ids.subspan(at + 1, static_cast<std::size_t>(drafts)), {&rows, 1}, sources,
                     StreamSource::kTarget);
    Append(true, drafts, logits);
  }
  return logits;
}

std::vector<float> ExecutorRun::DraftStep(TokenId next, std::int64_t position,
                                          StreamSource source) {
  std::vector<float> logits;
  const std::int64_t from = source == StreamSource::kTarget ? last_rows_ - 1 : 0;
  const SlotRows rows = Rows(position, 1, Phase::kDecode);
  executor_->Draft({&next, 1}, {&rows, 1}, {&from, 1}, source);
  Append(true, 1, logits);
  return logits;
}

}  // namespace kv8::test
