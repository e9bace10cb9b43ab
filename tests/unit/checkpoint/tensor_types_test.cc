#include "checkpoint/tensor_types.h"

#include <gtest/gtest.h>

namespace kv8 {
namespace {

TEST(WhyUnsupported, NamesTheType) {
  for (const DType type : {DType::kF8E4M3, DType::kU8, DType::kI32, DType::kI64, DType::kF64}) {
    const auto why = WhyUnsupported("model.layers.0.mlp.experts.gate_up_proj", type, {});
    EXPECT_NE(why.find(Name(type)), why.npos);
  }
}

TEST(WhyUnsupported, IsEmptyForWhatTheModelHas) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    EXPECT_EQ(WhyUnsupported("model.layers.0.mlp.experts.gate_up_proj", type, {}), "");
  }
  EXPECT_EQ(WhyUnsupported("model.layers.3.self_attn.k_scale", DType::kF32, {}), "");
  EXPECT_EQ(WhyUnsupported("model.layers.3.self_attn.k_proj.output_scale", DType::kF32, {}), "");
  constexpr std::string_view kIntegers[] = {"layer_multipliers"};
  EXPECT_EQ(WhyUnsupported("model.layers.1.ple.layer_multipliers", DType::kI64, kIntegers), "");
  EXPECT_NE(WhyUnsupported("model.layers.1.ple.layer_multipliers", DType::kI32, kIntegers), "");
}

}  // namespace
}  // namespace kv8
