// The dimensions that kernels exist for: checked for a whole model by ops/limits.h and by each op
// for its own arguments.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "ops/cuda/dense.h"
#include "ops/cuda/device_types.h"
#include "ops/cuda/gdn.h"
#include "ops/cuda/moe.h"
#include "ops/cuda/no_kernel.h"
#include "ops/cuda/ple.h"
#include "ops/limits.h"

namespace kv8::cuda {

inline constexpr Values kInnerDims{.multiple_of = 32};  // columns that a product reads at a time
inline constexpr Values kStreamCounts{.one_of = {kHyperStreams}};
inline constexpr Values kConvKernels{.one_of = {kGdnConvKernel}};
inline constexpr Values kGdnDims{.one_of = {32, 128}};
inline constexpr Values kHeadDims{.one_of = {64, 128, 256}};
inline constexpr Values kHeadsPerKvHead{.max = 16};
inline constexpr Values kIndexDims{.one_of = {64, 128}};
inline constexpr Values kIndexHeadCounts{.max = 4};
inline constexpr Values kSelectionBlocks{.one_of = {kSelectionBlockTokens}};
inline constexpr Values kExpertCounts{.max = kMaxExperts};
inline constexpr Values kExpertsPerToken{.max = kMaxExpertsPerToken};
inline constexpr Values kNgramSizes{.max = kMaxNgram};

/// Errors: NoKernel, unless `got` is among what the kernels have.
inline Result<void> Check(std::string_view op, std::string_view dimension, std::int64_t got,
                          const Values& has) {
  if (has.Hold(got)) return {};
  return NoKernel(op, fmt::format("{} is {}, the GPU has {}", dimension, got, has.Text()));
}

}  // namespace kv8::cuda
