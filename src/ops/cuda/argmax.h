// The most likely token of each row.
#pragma once

#include "ops/cuda/device_types.h"

namespace kv8::cuda {

/// Logits that one thread block looks at, at least.
inline constexpr std::int32_t kArgmaxPart = 8192;
inline constexpr std::int32_t kMaxArgmaxParts = 64;

/// Thread blocks that a row is cut into.
inline constexpr std::int32_t ArgmaxParts(std::int32_t vocab) {
  const std::int32_t parts = (vocab + kArgmaxPart - 1) / kArgmaxPart;
  return parts < kMaxArgmaxParts ? parts : kMaxArgmaxParts;
}

/// tokens[t] = index of the largest logit, ties to the lower one; kNoToken when a logit of the row
/// is NaN or infinite.
///
/// Effects  writes tokens; scratch is overwritten; tickets must be zero before the first call and
///          are zero after every call
struct ArgmaxArgs {
  const float* logits;  // [T,stride]
  std::int64_t stride;
  std::int32_t rows;  // T
  std::int32_t vocab;
  std::uint64_t* parts;   // scratch [T,ArgmaxParts(vocab)]
  std::int32_t* tickets;  // [T]
  std::int32_t* tokens;   // [T]
};

inline constexpr std::int32_t kNoToken = -1;

}  // namespace kv8::cuda
