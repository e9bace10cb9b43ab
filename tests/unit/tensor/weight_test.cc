// Where the parts of a stored weight lie.
#include "tensor/weight.h"

#include <gtest/gtest.h>

#include <vector>

namespace kv8 {
namespace {

TEST(Weight, PlainFormatsHaveCodesAlone) {
  const std::byte codes[64] = {};
  const Weight w{WeightFormat::kFp32, 4, 4, codes};
  EXPECT_EQ(w.bytes(), 64);
  EXPECT_EQ(w.scale_rows(), 0);
  EXPECT_EQ(w.Rows(3, 1).codes, codes + 48);
  EXPECT_EQ(w.Rows(3, 1).bytes(), 16);
}

/// Per byte two columns, per scale 16: an odd last column takes a whole byte, a short last group a
/// whole scale.
TEST(Weight, HalfBytesAndShortGroupsAreRoundedUp) {
  const std::byte codes[64] = {}, scales[64] = {};
  const Weight w{.format = WeightFormat::kNvfp4,
                 .rows = 3,
                 .cols = 35,
                 .codes = codes,
                 .scales = scales,
                 .group = 16,
                 .scale_format = ScaleFormat::kE4m3};
  EXPECT_EQ(w.code_row_bytes(), 18);
  EXPECT_EQ(w.scale_cols(), 3);
  EXPECT_EQ(w.bytes(), 3 * (18 + 3));
  EXPECT_EQ(w.Rows(2, 1).codes, codes + 36);
  EXPECT_EQ(w.Rows(2, 1).scales, scales + 6);
}

TEST(Weight, ZeroPointsCountWhereTheyAre) {
  const std::byte bytes[64] = {};
  Weight w{.format = WeightFormat::kInt4,
           .rows = 2,
           .cols = 64,
           .codes = bytes,
           .scales = bytes,
           .group = 32,
           .scale_format = ScaleFormat::kBf16};
  EXPECT_EQ(w.bytes(), 2 * (32 + 2 * 2));
  w.zero_points = bytes;
  EXPECT_EQ(w.bytes(), 2 * (32 + 2 * 2 + 2));
  EXPECT_EQ(w.Rows(1, 1).zero_points, bytes + 2);
}

/// A slice may begin inside a block of rows that share their scales, and a slice of it again.
TEST(Weight, SlicesFindTheirRowsOfABlock) {
  const std::byte codes[1] = {}, scales[64] = {};
  const Weight w{.format = WeightFormat::kFp8,
                 .rows = 300,
                 .cols = 200,
                 .codes = codes,
                 .scales = scales,
                 .group = 128,
                 .group_rows = 128,
                 .scale_format = ScaleFormat::kFp32};
  EXPECT_EQ(w.bytes(), 300 * 200 + 3 * 2 * 4);
  const Weight slice = w.Rows(64, 200);
  EXPECT_EQ(slice.scales, scales);
  EXPECT_EQ(slice.scale_row, 64);
  EXPECT_EQ(slice.scale_rows(), 3);
  const Weight again = slice.Rows(100, 90);  // rows 164 to 253
  EXPECT_EQ(again.scales, scales + 2 * 4);
  EXPECT_EQ(again.scale_row, 36);
  EXPECT_EQ(again.scale_rows(), 1);
}

}  // namespace
}  // namespace kv8
