// The layouts themselves, and what their readers share.
#pragma once

#include "checkpoint/weight_layout.h"

namespace kv8 {

extern const WeightLayout kPlainLayout;
extern const WeightLayout kFp8BlockLayout;
extern const WeightLayout kFp8TableLayout;
extern const WeightLayout kModelOptNvfp4Layout;
extern const WeightLayout kCompressedNvfp4Layout;
extern const WeightLayout kCompressedInt4Layout;
extern const WeightLayout kGptqLayout;
extern const WeightLayout kAwqLayout;

/// The one positive finite value of a tensor of shape [] or [1], BF16 or F32.
Result<float> ReadOnly(const WeightParts& parts, std::string_view leaf);

/// Error unless the part has this shape, which the codes make it.
Result<void> RequireShape(const WeightParts& parts, std::string_view leaf,
                          std::span<const std::int64_t> shape);

/// Error unless the part is a matrix without an extent of 0.
Result<void> RequireMatrix(const WeightParts& parts, std::string_view leaf);

/// Columns that share one of `groups` scales. Error, at the scales, unless they divide.
Result<std::int32_t> GroupOf(const WeightParts& parts, std::string_view scales, std::int64_t cols,
                             std::int64_t groups);

ScaleFormat ScaleFormatOf(DType dtype);

/// Fresh memory that `copies` keeps.
std::byte* Allocate(std::int64_t bytes, WeightCopies& copies);

/// The zero points of a described weight, one byte each, in memory that `copies` keeps;
/// at(row, group) is one of them.
template <class At>
const std::byte* CopyZeroPoints(const Weight& weight, WeightCopies& copies, At at) {
  const std::int64_t groups = weight.scale_cols();
  std::byte* const to = Allocate(weight.rows * groups, copies);
  for (std::int64_t i = 0; i < weight.rows * groups; ++i) {
    to[i] = std::byte{at(i / groups, i % groups)};
  }
  return to;
}

/// Codes of 4 bits in a word of 32.
inline constexpr std::int64_t kFields = 8;

/// Field `i` of the 32-bit word at `word`, which may be unaligned.
std::uint8_t NibbleOf(const std::byte* word, int i);

}  // namespace kv8
