#include "synth/formats.h"

#include <fmt/format.h>

#include "synth/quantise.h"

namespace kv8 {
namespace {

Result<void> RequireMultiple(std::int64_t extent, int of, const char* what, const char* flag,
                             const ModelTensor& tensor) {
  if (extent % of == 0) return {};
  return Error{Code::kUnsupported,
               fmt::format("{} has {} {}, which {} does not divide", tensor.name, extent, what, of),
               flag, "choose another format, or other dimensions with --dims"};
}

Result<void> CheckMatrix(const ModelTensor& tensor, std::int64_t rows, const StoredFormat& stored,
                         const char* flag) {
  const std::int64_t cols = tensor.shape.back();
  if (stored.format == WeightFormat::kNvfp4) {
    return RequireMultiple(cols, kNvfp4Group, "columns", flag, tensor);
  }
  if (stored.format != WeightFormat::kInt4) return {};
  KV8_RETURN_IF_ERROR(RequireMultiple(cols, stored.group, "columns", flag, tensor));
  return stored.symmetric ? Result<void>() : RequireMultiple(rows, 8, "rows", flag, tensor);
}

}  // namespace

SynthFormats PublishedWith(StoredFormat experts) {
  SynthFormats out{.experts = experts};
  const WeightFormat format = experts.format;
  if (IsPlain(format)) out.table = format;
  if (IsPlain(format) || format == WeightFormat::kFp8) out.draft_experts = experts;
  if (format == WeightFormat::kFp8 || format == WeightFormat::kNvfp4) {
    out.table = WeightFormat::kFp8;
  }
  return out;
}

Result<void> CheckFormats(const SynthFormats& formats, const ModelTensors& tensors) {
  const WeightFormat experts = formats.experts.format;
  const bool with_fp8 = experts == WeightFormat::kFp8 || experts == WeightFormat::kNvfp4;
  if (formats.draft_experts.format == WeightFormat::kFp8 && !with_fp8) {
    return Error{
        Code::kUnsupported,
        fmt::format("no published configuration has FP8 there beside experts in {}", Name(experts)),
        "--draft-weights", "leave it out, or choose --weights fp8 or nvfp4"};
  }
  for (const ModelTensor& tensor : tensors.floats) {
    if (tensor.role == TensorRole::kTable) {
      KV8_RETURN_IF_ERROR(CheckMatrix(tensor, tensor.shape[0], {formats.table}, "--table-weights"));
    }
    if (tensor.role != TensorRole::kExperts) continue;
    // Gate and up stand above each other.
    const std::int64_t rows = tensor.shape[1] / (tensor.name.ends_with("gate_up_proj") ? 2 : 1);
    KV8_RETURN_IF_ERROR(CheckMatrix(tensor, rows, formats.ExpertsOf(tensor), "--weights"));
  }
  return {};
}

}  // namespace kv8
