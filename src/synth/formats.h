// Which formats a written checkpoint has, and what its files may then be called to hold.
#pragma once

#include "kv8/error.h"
#include "synth/model_tensors.h"
#include "tensor/weight.h"

namespace kv8 {

/// A format with what else its scales need.
struct StoredFormat {
  WeightFormat format = WeightFormat::kBf16;
  int group = 0;           // columns that share a scale: of kInt4
  bool symmetric = false;  // without zero points: of kInt4

  bool operator==(const StoredFormat&) const = default;
};

/// Formats by kind of tensor. Whatever is none of these is plain: F16 if experts are, else BF16.
struct SynthFormats {
  StoredFormat experts;                      // of the target's layers
  StoredFormat draft_experts;                // plain or FP8
  WeightFormat table = WeightFormat::kBf16;  // plain, FP8 or NVFP4

  WeightFormat plain() const {
    return experts.format == WeightFormat::kFp16 ? WeightFormat::kFp16 : WeightFormat::kBf16;
  }
  const StoredFormat& ExpertsOf(const ModelTensor& tensor) const {
    return tensor.is_draft() ? draft_experts : experts;
  }
};

/// What publishers put beside experts of this format: the table in FP8 and the draft's experts in
/// FP8 (fp8), or as they are (nvfp4: the table alone in FP8).
SynthFormats PublishedWith(StoredFormat experts);

/// Errors: kUnsupported for a combination or a matrix that the formats cannot say: columns that a
/// group does not divide, a draft in FP8 beside INT4. The error names flag, tensor and numbers.
Result<void> CheckFormats(const SynthFormats& formats, const ModelTensors& tensors);

}  // namespace kv8
