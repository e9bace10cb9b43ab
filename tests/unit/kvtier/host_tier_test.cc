#include "kvtier/host_tier.h"

#include <gtest/gtest.h>

#include <string>

namespace kv8 {
namespace {

constexpr std::int64_t kPage = 8192, kState = 4096;

/// Prompts are pages, and each letter of a text is a page of one token.
class HostTierTest : public testing::TestWithParam<bool> {
 protected:
  HostTier Tier(std::int64_t budget) {
    return HostTier({.layout = {kPage, kState}, .budget = budget, .with_draft = GetParam()});
  }

  static std::vector<TokenId> Tokens(const std::string& text) {
    std::vector<TokenId> tokens;
    for (const char letter : text) tokens.insert(tokens.end(), kPageTokens, letter);
    return tokens;
  }

  /// Offers the state after all pages of `text`, whose run begins at `begin`.
  bool Take(HostTier& tier, const std::string& text, std::int64_t begin = 0, char next = '.') {
    LeavingPrefix leaving{.tokens = Tokens(text), .run_begin = begin};
    if (GetParam()) leaving.tokens.push_back(next);
    for (std::size_t i = 0; i < text.size(); ++i) leaving.pages.push_back(PageId{});
    const auto write = tier.Take(leaving);
    if (write) write->unit->written = true;
    return write.has_value();
  }

  static TierHit Find(HostTier& tier, const std::string& text, std::int64_t known = 0,
                      std::int64_t above = 0) {
    std::vector<TokenId> prompt = Tokens(text);
    prompt.push_back('.');
    return tier.Find(prompt, std::ssize(text), 0, known, above);
  }
};

TEST_P(HostTierTest, FindsTheLongestBeginning) {
  HostTier tier = Tier(1 << 20);
  EXPECT_TRUE(Take(tier, "ab", 0, 'c'));
  EXPECT_TRUE(Take(tier, "abcd", 2));
  EXPECT_FALSE(Take(tier, "abcd", 2)) << "it is there already";
  EXPECT_EQ(Find(tier, "abcde").pages, 4);
  EXPECT_EQ(Find(tier, "abcde").chain.size(), 2u);
  EXPECT_EQ(Find(tier, "abce").pages, 2);
  EXPECT_EQ(Find(tier, "axcd").pages, 0);
  EXPECT_EQ(Find(tier, "abcde", 0, 4).pages, 0) << "no more than the pools have";
  EXPECT_EQ(tier.Find(Tokens("abcd."), 4, 1, 0, 0).pages, 0) << "another group's";
}

TEST_P(HostTierTest, Kvtier1_AGapInTheWayIsNoWay) {
  HostTier tier = Tier(1 << 20);
  ASSERT_TRUE(Take(tier, "abcd", 2));
  EXPECT_EQ(Find(tier, "abcd").pages, 0);
  EXPECT_EQ(Find(tier, "abcd", 1).pages, 0);
  EXPECT_EQ(Find(tier, "abcd", 2).pages, 4) << "the pools have the first two";
  const auto unit = Find(tier, "abcd", 2).chain.front();
  tier.Forget(*unit);
  EXPECT_EQ(Find(tier, "abcd", 2).pages, 0) << "what was never filled is not used";
}

TEST_P(HostTierTest, Kvtier1_WhatFollowsAnotherTokenIsNoWay) {
  if (!GetParam()) GTEST_SKIP() << "pages depend on no later token";
  HostTier tier = Tier(1 << 20);
  ASSERT_TRUE(Take(tier, "ab", 0, 'x'));
  ASSERT_TRUE(Take(tier, "abcd", 2));
  EXPECT_EQ(Find(tier, "abc").pages, 2) << "its last row is computed again";
  EXPECT_EQ(Find(tier, "abcd").pages, 2) << "its draft layer saw x after b";
}

TEST_P(HostTierTest, Kvtier3_StatesInTheMiddleGoFirstThenTheOldestEnd) {
  HostTier tier = Tier(6 * kPage + 3 * kState);
  ASSERT_TRUE(Take(tier, "ab", 0, 'c'));
  ASSERT_TRUE(Take(tier, "abc", 2));
  ASSERT_TRUE(Take(tier, "pq"));
  ASSERT_TRUE(Take(tier, "r"));
  EXPECT_EQ(tier.statistics().states_given_up, 1u);
  EXPECT_EQ(Find(tier, "ab").pages, 0) << "its state made room";
  EXPECT_EQ(Find(tier, "abc").pages, 3) << "its pages are still a way";
  ASSERT_TRUE(Take(tier, "s"));
  EXPECT_EQ(Find(tier, "pq").pages, 0) << "used longest ago";
  EXPECT_EQ(Find(tier, "r").pages, 1);
  EXPECT_EQ(tier.statistics().contexts, 3u);
  EXPECT_LE(tier.statistics().bytes, tier.statistics().budget);
}

TEST_P(HostTierTest, Kvtier3_WhatCameBackStays) {
  HostTier tier = Tier(6 * kPage + 6 * kState);
  ASSERT_TRUE(Take(tier, "ab", 0, 'c'));
  ASSERT_TRUE(Take(tier, "abc", 2));
  ASSERT_EQ(Find(tier, "abc").pages, 3);
  ASSERT_TRUE(Take(tier, "x"));
  ASSERT_TRUE(Take(tier, "y"));
  ASSERT_TRUE(Take(tier, "z"));
  for (const char* once : {"1", "2", "3"}) EXPECT_TRUE(Take(tier, once));
  EXPECT_EQ(Find(tier, "x").pages, 0);
  EXPECT_EQ(Find(tier, "abc").pages, 3) << "older, but it came back";
}

TEST_P(HostTierTest, Kvtier3_WhatSeveralShareStays) {
  HostTier tier = Tier(5 * kPage + 3 * kState);
  ASSERT_TRUE(Take(tier, "ab", 0, 'c'));
  ASSERT_TRUE(Take(tier, "abc", 2));
  ASSERT_TRUE(Take(tier, GetParam() ? "abc" : "abd", 2, 'e'));
  ASSERT_TRUE(Take(tier, "xy"));
  EXPECT_EQ(tier.statistics().states_given_up, 0u);
  EXPECT_EQ(tier.statistics().units_given_up, 1u);
  EXPECT_EQ(Find(tier, "ab").pages, 2) << "the oldest of all, but shared";
}

TEST_P(HostTierTest, Kvtier3_WhatIsInUseStaysAndWhatFindsNoRoomIsCounted) {
  HostTier tier = Tier(2 * kPage + kState);
  ASSERT_TRUE(Take(tier, "ab"));
  {
    const TierHit hit = Find(tier, "ab");
    EXPECT_FALSE(Take(tier, "c")) << "a step still reads what is there";
    EXPECT_EQ(tier.statistics().lost, 1u);
  }
  EXPECT_TRUE(Take(tier, "c"));
  EXPECT_FALSE(Take(tier, "defg")) << "never fits";
}

INSTANTIATE_TEST_SUITE_P(Draft, HostTierTest, testing::Bool());

}  // namespace
}  // namespace kv8
