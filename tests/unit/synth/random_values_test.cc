#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numeric/half.h"
#include "synth/values.h"

namespace kv8 {
namespace {

std::vector<float> Read(const RandomValues& values, const ModelTensor& tensor) {
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  EXPECT_TRUE(values.Read(tensor, 0, out).ok());
  return out;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  Moments out;
  for (const float v : values) out.mean += v / static_cast<double>(values.size());
  for (const float v : values) {
    out.deviation += (v - out.mean) * (v - out.mean) / static_cast<double>(values.size());
  }
  out.deviation = std::sqrt(out.deviation);
  return out;
}

TEST(RandomValues, AProjectionHasTheDeviationOfItsFanIn) {
  const ModelTensor w{"model.layers.0.mlp.gate.weight", {400, 256}};
  const std::vector<float> values = Read(RandomValues(7), w);
  const Moments moments = MomentsOf(values);
  EXPECT_NEAR(moments.mean, 0, 0.001);
  EXPECT_NEAR(moments.deviation, 1.0 / 16, 0.001);
  const float bound = RandomValues(7).Bound(w).value();
  EXPECT_LE(*std::ranges::max_element(values), bound);
  EXPECT_GT(*std::ranges::max_element(values), 0.9f * bound);
  for (const float v : values) ASSERT_EQ(DecodeBf16(EncodeBf16(v)), v);
}

TEST(RandomValues, GainsAndDecaysStayInTheirRanges) {
  const RandomValues values(7);
  const auto vector = [&](const char* name) {
    return Read(values, {name, {4096}, TensorRole::kVector});
  };
  EXPECT_NEAR(MomentsOf(vector("mtp.layers.0.self_attn.q_norm.weight")).mean, 0, 0.01);
  EXPECT_NEAR(MomentsOf(vector("model.layers.1.ple.norm_key.weight")).deviation, 0.05, 0.01);
  EXPECT_NEAR(MomentsOf(vector("model.layers.0.linear_attn.norm.weight")).mean, 1, 0.01);
  const auto [low, high] = std::ranges::minmax(vector("model.layers.0.linear_attn.A_log"));
  EXPECT_GE(low, 0);
  EXPECT_LT(high, 2.78f);
  EXPECT_GT(high - low, 2.5f);
}

TEST(RandomValues, DependOnSeedNameAndPlaceAlone) {
  const ModelTensor a{"model.layers.0.mlp.gate.weight", {64, 64}};
  const ModelTensor b{"model.layers.1.mlp.gate.weight", {64, 64}};
  const std::vector<float> whole = Read(RandomValues(1), a);
  std::vector<float> part(100);
  ASSERT_TRUE(RandomValues(1).Read(a, 1234, part).ok());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 1234));
  EXPECT_NE(Read(RandomValues(2), a), whole);
  EXPECT_NE(Read(RandomValues(1), b), whole);
  // The same on every machine: change these and every published test checkpoint changes.
  EXPECT_EQ(std::vector(whole.begin(), whole.begin() + 4),
            (std::vector<float>{-0.229492188f, -0.0927734375f, -0.0213623047f, 0.095703125f}));
}

}  // namespace
}  // namespace kv8
