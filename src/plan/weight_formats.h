// How the matrices of a checkpoint that is not here would be stored.
#pragma once

#include <string>
#include <string_view>

#include "kv8/error.h"
#include "tensor/weight.h"

namespace kv8 {

/// Formats by module, as public checkpoints of the family have them: routed experts, the target's
/// and the draft's, in one format, the n-gram table in one, all else in BF16.
struct WeightFormats {
  Weight experts;  // without rows and columns
  Weight table;

  /// For ShapeSource.
  Weight Of(std::string_view tensor) const;
};

/// bf16, fp16, fp32; fp8: E4M3, a scale of FP32 for 128 x 128; nvfp4: E2M1, a scale of E4M3 for 16
/// columns; int4-gN: 4 bits, a scale of BF16 for N columns, symmetric.
/// Errors: kInvalidArgument, with the names that exist.
Result<Weight> ParseWeightFormat(std::string_view name);

/// bf16; fp8: E4M3 with one scale; nvfp4: as for other matrices. Errors: kInvalidArgument, with the
/// names that exist.
Result<Weight> ParseTableFormat(std::string_view name);

}  // namespace kv8
