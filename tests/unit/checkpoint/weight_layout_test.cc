#include "checkpoint/weight_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <random>

#include "support/quantised_matrix.h"
#include "tensor/weight_row.h"

namespace kv8 {
namespace {

using test::Layout;
using test::LayoutOptions;
using test::MakeTensor;
using test::OwnedTensors;
using testing::HasSubstr;

std::vector<float> RandomValues(std::int64_t count) {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(engine);
  return values;
}

/// Tensors under the stem "m.", and those that a table shares under "t.".
TensorMap MapOf(const OwnedTensors& tensors, const OwnedTensors& shared = {}) {
  TensorMap map;
  for (const auto& [leaf, tensor] : tensors) map.emplace("m." + leaf, tensor.view());
  for (const auto& [leaf, tensor] : shared) map.emplace("t." + leaf, tensor.view());
  return map;
}

/// The weight that these tensors are; the map must live as long.
Result<Weight> Load(const TensorMap& map, WeightCopies& copies,
                    std::optional<GptqZeros> zeros = std::nullopt) {
  const WeightParts parts(map, "m.", "t.");
  KV8_ASSIGN_OR_RETURN(const WeightLayout* const layout, LayoutOf(parts));
  KV8_ASSIGN_OR_RETURN(const Weight described, layout->describe(parts));
  return layout->load(parts, described, zeros, copies);
}

/// That it is refused, at a tensor, with words.
void ExpectRefused(const OwnedTensors& tensors, std::string_view at, std::string_view words,
                   std::optional<GptqZeros> zeros = GptqZeros::kPlain) {
  const TensorMap map = MapOf(tensors);
  WeightCopies copies;
  const auto weight = Load(map, copies, zeros);
  ASSERT_FALSE(weight.ok()) << words;
  EXPECT_EQ(weight.error().where, "m." + std::string(at));
  EXPECT_THAT(weight.error().what, HasSubstr(std::string(words)));
  EXPECT_NE(weight.error().remedy, "");
}

std::optional<GptqZeros> ZerosOf(Layout layout) {
  return layout == Layout::kGptqV2 ? GptqZeros::kPlain : GptqZeros::kLessOne;
}

struct Stored {
  LayoutOptions options;
  std::int64_t rows, cols;
};

std::vector<Stored> StoredCases() {
  using enum Layout;
  std::vector<Stored> cases;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    cases.push_back({{kFp8Blocks, 0, false, dtype}, 256, 128});
    cases.push_back({{kFp8Blocks, 0, false, dtype}, 130, 257});  // short blocks at both edges
    cases.push_back({{kFp8OneScale, 0, false, dtype}, 33, 24});
  }
  for (const Layout layout : {kModelOptNvfp4, kCompressedNvfp4}) cases.push_back({{layout}, 9, 48});
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const int group : {8, 24, 32, 96}) {
      for (const bool zeros : {false, true}) {
        cases.push_back({{kCompressedInt4, group, zeros, dtype}, 13, 96});
      }
      for (const Layout layout : {kGptq, kGptqV2, kAwq}) {
        cases.push_back({{layout, group, true, dtype}, 24, 96});
      }
    }
  }
  return cases;
}

TEST(WeightLayout, Ckpt1_ValuesAreThoseThatWereStored) {
  for (const Stored& c : StoredCases()) {
    SCOPED_TRACE(fmt::format("layout {} group {} zero points {} scales {}",
                             static_cast<int>(c.options.layout), c.options.group,
                             c.options.zero_points, Name(c.options.scale_dtype)));
    const auto stored = test::Quantise(c.options, RandomValues(c.rows * c.cols), c.rows, c.cols);
    const TensorMap map = MapOf(stored.tensors);
    WeightCopies copies;
    const auto weight = Load(map, copies, ZerosOf(c.options.layout));
    ASSERT_TRUE(weight.ok()) << weight.error().ToString();
    ASSERT_EQ(weight->rows, c.rows);
    ASSERT_EQ(weight->cols, c.cols);
    std::vector<float> row(static_cast<std::size_t>(c.cols));
    for (std::int64_t r = 0; r < c.rows; ++r) {
      DecodeRow(*weight, r, row.data());
      for (std::int64_t i = 0; i < c.cols; ++i) {
        const float expected = stored.values[static_cast<std::size_t>(r * c.cols + i)];
        ASSERT_EQ(std::bit_cast<std::uint32_t>(row[static_cast<std::size_t>(i)] + 0.0f),
                  std::bit_cast<std::uint32_t>(expected + 0.0f))
            << r << ", " << i;
      }
    }
  }
}

/// Only what has to be turned is copied.
TEST(WeightLayout, StaysInTheFileWhereItCan) {
  for (const Stored& c : StoredCases()) {
    const auto stored = test::Quantise(c.options, RandomValues(c.rows * c.cols), c.rows, c.cols);
    const TensorMap map = MapOf(stored.tensors);
    WeightCopies copies;
    ASSERT_TRUE(Load(map, copies, ZerosOf(c.options.layout)).ok());
    const bool container = stored.tensors.contains("qweight");
    EXPECT_EQ(copies.size(), container ? 3u : c.options.zero_points ? 1u : 0u);
  }
}

TEST(WeightLayout, PiecesOfATableShareAScale) {
  const auto fp8 = test::Quantise({.layout = Layout::kFp8OneScale}, RandomValues(48), 2, 24);
  const auto fp4 = test::Quantise({.layout = Layout::kModelOptNvfp4}, RandomValues(64), 2, 32);
  for (const auto& [matrix, leaf] : {std::pair(fp8, "weight_scale"), {fp4, "weight_scale_2"}}) {
    OwnedTensors own = matrix.tensors;
    const OwnedTensors shared = {{leaf, own.at(leaf)}};
    own.erase(leaf);
    const TensorMap map = MapOf(own, shared);
    WeightCopies copies;
    const auto weight = Load(map, copies);
    ASSERT_TRUE(weight.ok()) << weight.error().ToString();
    std::vector<float> row(static_cast<std::size_t>(weight->cols));
    DecodeRow(*weight, 1, row.data());
    EXPECT_EQ(row, std::vector<float>(matrix.values.begin() + weight->cols, matrix.values.end()));
  }
}

OwnedTensors Tensors(const LayoutOptions& options) {
  return test::Quantise(options, RandomValues(128 * 64), 128, 64).tensors;
}

OwnedTensors Without(OwnedTensors tensors, const std::string& leaf) {
  tensors.erase(leaf);
  return tensors;
}

OwnedTensors With(OwnedTensors tensors, const std::string& leaf, test::OwnedTensor tensor) {
  tensors[leaf] = std::move(tensor);
  return tensors;
}

TEST(WeightLayout, Ckpt2_Fp8IsNeverPlain) {
  for (const Layout layout : {Layout::kFp8Blocks, Layout::kFp8OneScale}) {
    const OwnedTensors tensors = Tensors({layout});
    ExpectRefused({{"weight", tensors.at("weight")}}, "weight", "F8_E4M3, but its weight_scale");
  }
}

TEST(WeightLayout, Ckpt3_PartsThatAreMissingOrHaveNoPlace) {
  using enum Layout;
  ExpectRefused(Without(Tensors({kModelOptNvfp4}), "weight_scale_2"), "weight", "weight_scale_2");
  ExpectRefused(Without(Tensors({kModelOptNvfp4}), "weight_scale"), "weight", "weight_scale");
  ExpectRefused(Without(Tensors({kCompressedNvfp4}), "weight_global_scale"), "weight_packed",
                "weight_global_scale");
  ExpectRefused(Without(Tensors({kCompressedInt4}), "weight_shape"), "weight_packed",
                "weight_shape");
  ExpectRefused(Without(Tensors({kGptq}), "qzeros"), "qweight", "qzeros is missing");
  ExpectRefused(Without(Tensors({kAwq}), "scales"), "qweight", "scales");
  for (const Layout layout : {kFp8Blocks, kModelOptNvfp4, kCompressedInt4, kGptq}) {
    OwnedTensors tensors = Tensors({layout});
    for (const char* codes : {"weight", "weight_packed", "qweight"}) tensors.erase(codes);
    ExpectRefused(tensors, tensors.begin()->first, "codes are not there");
  }
  const auto plain = MakeTensor<std::uint16_t>(DType::kBF16, {1, 2}, {0, 0});
  const auto scale = MakeTensor<float>(DType::kF32, {}, {1});
  ExpectRefused({{"weight", plain}, {"weight_scale", scale}}, "weight_scale", "no place beside");
  ExpectRefused(With(Tensors({kFp8Blocks}), "weight_scale_2", scale), "weight_scale_2",
                "no place beside");
}

TEST(WeightLayout, Ckpt4_ForeignFormatsAreRefusedByName) {
  const OwnedTensors nvfp4 = Tensors({Layout::kModelOptNvfp4});
  const auto exponents = MakeTensor<std::uint8_t>(DType::kU8, {1}, {127});
  auto e8m0 = exponents;
  e8m0.dtype = DType::kF8E8M0;
  ExpectRefused(With(Without(nvfp4, "weight_scale_2"), "weight_scale", exponents), "weight_scale",
                "MXFP4");
  ExpectRefused(With(Without(nvfp4, "weight_scale_2"), "weight_scale", e8m0), "weight_scale",
                "MXFP4");
  ExpectRefused(With(Tensors({Layout::kFp8OneScale}), "weight_scale", e8m0), "weight_scale",
                "MXFP8");
  ExpectRefused({{"trellis", MakeTensor<std::int16_t>(DType::kI16, {1}, {0})}}, "trellis", "EXL3");
  ExpectRefused({{"weight", MakeTensor<std::uint8_t>(DType::kF6E2M3, {4}, {0, 0, 0})}}, "weight",
                "FP6");
  ExpectRefused(With(Tensors({Layout::kCompressedInt4}), "weight_g_idx",
                     MakeTensor<std::int32_t>(DType::kI32, {1}, {0})),
                "weight_g_idx", "act-order");
  for (const DType type : {DType::kI8, DType::kI32, DType::kF8E5M2, DType::kF4}) {
    ExpectRefused({{"weight", {type, {2, 0}, {}}}}, "weight", Name(type));
  }
}

TEST(WeightLayout, Ckpt4_ActOrderIsRefusedAndTheTrivialOrderIsNot) {
  const OwnedTensors gptq = Tensors({Layout::kGptqV2, 32});
  std::vector<std::int32_t> order(64);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i / 32);
  const OwnedTensors trivial = With(gptq, "g_idx", MakeTensor(DType::kI32, {64}, order));
  const TensorMap map = MapOf(trivial);
  WeightCopies copies;
  EXPECT_TRUE(Load(map, copies, GptqZeros::kPlain).ok());
  std::swap(order[3], order[40]);
  ExpectRefused(With(gptq, "g_idx", MakeTensor(DType::kI32, {64}, order)), "g_idx", "act-order");
  ExpectRefused(gptq, "qzeros", "checkpoint_format", std::nullopt);
}

/// 15 is 16 to some readers and, where a program subtracted from 0, 0 to others.
TEST(WeightLayout, Ckpt7_AGptqZeroPointThatOverflowsIsRefused) {
  OwnedTensors gptq = Tensors({Layout::kGptq, 32});
  gptq["qzeros"].bytes[0] = std::byte{0x0F};
  ExpectRefused(gptq, "qzeros", "programs differ", GptqZeros::kLessOne);
}

TEST(WeightLayout, Ckpt3_ShapesThatContradictEachOther) {
  using enum Layout;
  const auto reshaped = [](OwnedTensors tensors, const std::string& leaf,
                           std::vector<std::int64_t> shape) {
    tensors[leaf].shape = std::move(shape);
    return tensors;
  };
  ExpectRefused(reshaped(Tensors({kModelOptNvfp4}), "weight_scale", {64, 8}), "weight_scale",
                "the codes make it [128, 4]");
  ExpectRefused(reshaped(Tensors({kModelOptNvfp4}), "weight", {1024, 4}), "weight", "groups of 16");
  ExpectRefused(reshaped(Tensors({kFp8Blocks}), "weight_scale_inv", {1}), "weight_scale_inv",
                "make it [1, 1]");
  ExpectRefused(reshaped(Tensors({kFp8Blocks}), "weight", {2, 64, 64}), "weight", "matrices");
  ExpectRefused(reshaped(Tensors({kCompressedInt4}), "weight_packed", {64, 16}), "weight_shape",
                "holds [64, 128]");
  ExpectRefused(reshaped(Tensors({kCompressedInt4, 32, true}), "weight_zero_point", {2, 16}),
                "weight_zero_point", "make it [16, 2]");
  ExpectRefused(reshaped(Tensors({kGptq}), "qweight", {4, 256}), "qweight", "neither GPTQ's");
  ExpectRefused(reshaped(Tensors({kAwq}), "qzeros", {1, 32}), "qzeros", "make it [2, 16]");
  OwnedTensors three = Tensors({kCompressedInt4});
  three["weight_scale"] = MakeTensor(DType::kBF16, {128, 3}, std::vector<std::uint16_t>(384, 1));
  ExpectRefused(three, "weight_scale", "3 groups, which do not divide the 64 columns");
  const auto two = MakeTensor<float>(DType::kF32, {2}, {1, 1});
  ExpectRefused(With(Tensors({kFp8OneScale}), "weight_scale", two), "weight_scale", "[] or [1]");
}

TEST(WeightLayout, Ckpt5_ScalesOfAMatrixAreNumbersAboveZero) {
  using enum Layout;
  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    const auto scale = MakeTensor<float>(DType::kF32, {1}, {bad});
    for (const auto& [layout, leaf] : {std::pair(kModelOptNvfp4, "weight_scale_2"),
                                       {kCompressedNvfp4, "weight_global_scale"},
                                       {kFp8OneScale, "weight_scale"}}) {
      ExpectRefused(With(Tensors({layout}), leaf, scale), leaf, "positive finite");
    }
  }
}

}  // namespace
}  // namespace kv8
