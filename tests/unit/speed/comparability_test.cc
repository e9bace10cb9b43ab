#include "speed/comparability.h"

#include <gtest/gtest.h>

namespace kv8 {
namespace {

Json Facts() {
  return {{kRoutesFact, {{"gdn", "simd AVX3"}, {"moe", "simd AVX3"}}},
          {kPartitionFact, {{"tensor_parallel_size", 1}}},
          {kAcceptanceFact, {{"prompts", "random"}, {"speculative_tokens", 3}}}};
}

TEST(Comparability, Bench4_TheSameFactsCanBeCompared) {
  EXPECT_TRUE(Differences(Facts(), Facts()).empty());
}

TEST(Comparability, Bench4_EveryFactThatDiffersIsNamed) {
  Json b = Facts();
  b[kRoutesFact]["moe"] = "reference";
  b[kPartitionFact]["tensor_parallel_size"] = 2;
  b[kAcceptanceFact]["speculative_tokens"] = 0;
  const auto lines = Differences(Facts(), b);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "routes.moe: simd AVX3 and reference");
  EXPECT_EQ(lines[1], "partition.tensor_parallel_size: 1 and 2");
  EXPECT_EQ(lines[2], "acceptance_source.speculative_tokens: 3 and 0");
}

TEST(Comparability, Bench4_WhatOneSideDoesNotSayDiffers) {
  Json b = Facts();
  b.erase(kRoutesFact);
  b[kAcceptanceFact].erase("prompts");
  const auto lines = Differences(Facts(), b);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("not said"), std::string::npos);
  EXPECT_EQ(lines[1], "acceptance_source.prompts: random and not said");
  EXPECT_EQ(Differences(Json(), Json()).size(), 3u);
}

}  // namespace
}  // namespace kv8
