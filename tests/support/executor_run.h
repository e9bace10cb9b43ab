// One sequence through an executor, chunk by chunk or token by token, on any device.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/executor.h"
#include "model/loaded_model.h"

namespace kv8::test {

/// How a run is made. KV8_TEST_BACKEND in the environment names a GPU's backend instead.
struct ExecutorRunOptions {
  DeviceKind device = DeviceKind::kCpu;
  KvDType kv_dtype = KvDType::kFp16;
  std::optional<std::filesystem::path> scale_pack;
  bool with_draft = false;
  std::int64_t capacity = 4096;  // tokens
  std::string device_backend =
      "precise";                // of a GPU: whose values the golden files' tolerances fit
  bool tables_on_host = false;  // as if a GPU's memory were too small by a byte
};

/// Why no test can use the device; nullopt when one can.
std::optional<std::string> WhyUnavailable(DeviceKind device);

/// One sequence from its start. Throws on any error, the executor's failures among them.
class ExecutorRun {
 public:
  explicit ExecutorRun(const ExecutorRunOptions& options);

  /// Logits [T,V] of all rows, fed as prefill chunks of `chunk` tokens.
  std::vector<float> Prefill(std::span<const TokenId> ids, std::int64_t chunk);
  /// Logits [V] of one more token, fed through decode kernels.
  std::vector<float> Decode(TokenId id);
  /// Streams [S*H] of row `row` of the last chunk or token.
  std::vector<float> Streams(std::int64_t row);

  /// Prefill, and with each chunk the draft head's rows but for the last token's, whose successor
  /// is not known. Logits [T-1,V] of those.
  std::vector<float> DraftPrefill(std::span<const TokenId> ids, std::int64_t chunk);
  /// Logits [V] of a draft row at `position` on the target's last row or, later, the draft's.
  std::vector<float> DraftStep(TokenId next, std::int64_t position, StreamSource source);

  std::int64_t vocab() const { return model_->model().spec.vocab; }
  const ModelSpec& config() const { return model_->model().spec; }
  Executor& executor() { return *executor_; }

 private:
  SlotRows Rows(std::int64_t first, std::int64_t count, Phase phase) const;
  void Append(bool draft, std::int64_t count, std::vector<float>& logits);
  void Check() const;

  std::unique_ptr<const LoadedModel> model_;
  std::unique_ptr<Executor> executor_;
  std::vector<PageId> pages_;
  std::int64_t position_ = 0;
  std::int64_t last_rows_ = 0;  // of the last chunk
};

}  // namespace kv8::test
