#include "speed/prompts.h"

#include <gtest/gtest.h>

#include <set>

namespace kv8 {
namespace {

TEST(Prompts, Bench1_NoTwoBeginAlikeWhileTheVocabularyLasts) {
  PromptSource source = PromptSource::Random(300, 5);
  std::set<TokenId> first;
  for (int i = 0; i < 300; ++i) {
    const auto ids = source.Next(1 + i % 7);
    EXPECT_EQ(std::ssize(ids), 1 + i % 7);
    for (const TokenId id : ids) EXPECT_TRUE(id >= 0 && id < 300);
    first.insert(ids.front());
  }
  EXPECT_EQ(first.size(), 300u);
}

TEST(Prompts, TheSameSeedGivesTheSamePrompts) {
  PromptSource a = PromptSource::Random(1000, 5);
  PromptSource b = PromptSource::Random(1000, 5);
  PromptSource other = PromptSource::Random(1000, 6);
  const auto ids = a.Next(50);
  EXPECT_EQ(ids, b.Next(50));
  EXPECT_NE(ids, other.Next(50));
  EXPECT_NE(ids, a.Next(50));
}

}  // namespace
}  // namespace kv8
