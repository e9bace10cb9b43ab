// The prefix tree finds exactly what was inserted, token by token, and gives up the oldest first.
#include "kvcache/prefix_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace kv8::test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

/// Pages full of one token each, and a last token.
std::vector<TokenId> Prompt(std::initializer_list<TokenId> pages, TokenId last = 0) {
  std::vector<TokenId> prompt;
  for (const TokenId token : pages) prompt.insert(prompt.end(), kPageTokens, token);
  prompt.push_back(last);
  return prompt;
}

class PrefixTreeTest : public testing::TestWithParam<bool> {
 protected:
  /// Allocates, inserts, and lets go: the pages are the tree's alone.
  std::vector<PageId> Insert(std::span<const TokenId> prompt, std::int64_t count) {
    const auto pages = pool.Allocate(count).value();
    tree.Insert(prompt, pages);
    pool.Free(pages);
    return pages;
  }

  PagePool pool{16};
  PrefixTree tree{pool, GetParam()};
};

TEST_P(PrefixTreeTest, AHitEndsAtTheDeepestSnapshot) {
  const auto prompt = Prompt({1, 2, 3});
  const auto pages = Insert(prompt, 3);
  PrefixHit hit = tree.Find(prompt, 3);
  EXPECT_THAT(hit.pages, IsEmpty());
  EXPECT_EQ(hit.matched_pages, 3);

  EXPECT_TRUE(tree.WantsSnapshot(prompt, 2));
  tree.AttachSnapshot(prompt, 2, SnapshotId{7});
  EXPECT_FALSE(tree.WantsSnapshot(prompt, 2));
  hit = tree.Find(prompt, 3);
  EXPECT_THAT(hit.pages, ElementsAre(pages[0], pages[1]));
  EXPECT_EQ(hit.snapshot, SnapshotId{7});
  EXPECT_EQ(hit.matched_pages, 3);
  EXPECT_THAT(tree.Find(prompt, 1).pages, IsEmpty());
}

TEST_P(PrefixTreeTest, GroupsShareNothing) {
  const auto prompt = Prompt({1, 2});
  const auto pages = Insert(prompt, 2);
  tree.AttachSnapshot(prompt, 2, SnapshotId{7});
  EXPECT_THAT(tree.Find(prompt, 2).pages, ElementsAreArray(pages));
  EXPECT_THAT(tree.Find(prompt, 2, 1).pages, IsEmpty());
  EXPECT_EQ(tree.Find(prompt, 2, 1).matched_pages, 0) << "not even that it is known";
  const auto other = pool.Allocate(2).value();
  tree.Insert(prompt, other, 1);
  pool.Free(other);
  EXPECT_TRUE(tree.WantsSnapshot(prompt, 2, 1));
  tree.AttachSnapshot(prompt, 2, SnapshotId{8}, 1);
  EXPECT_THAT(tree.Find(prompt, 2, 1).pages, ElementsAreArray(other));
  EXPECT_THAT(tree.Find(prompt, 2).pages, ElementsAreArray(pages));
  std::vector<SnapshotId> dropped;
  tree.Evict(16, dropped);
  EXPECT_THAT(dropped, ElementsAre(SnapshotId{8}, SnapshotId{7}))
      << "memory is common, and the least recently used of all goes first";
  EXPECT_EQ(pool.free_count(), 16);
}

TEST_P(PrefixTreeTest, OneOtherTokenIsAnotherPage) {
  const auto prompt = Prompt({1, 2});
  Insert(prompt, 2);
  tree.AttachSnapshot(prompt, 2, SnapshotId{1});
  auto other = prompt;
  other[100] = 9;
  EXPECT_THAT(tree.Find(other, 2).pages, IsEmpty());
  EXPECT_FALSE(tree.WantsSnapshot(other, 2));
}

TEST_P(PrefixTreeTest, ThePlaceOfAPageCounts) {
  const auto prompt = Prompt({1, 2});
  Insert(prompt, 2);
  tree.AttachSnapshot(prompt, 2, SnapshotId{1});
  EXPECT_EQ(tree.Find(Prompt({2, 1}), 2).matched_pages, 0);
}

TEST_P(PrefixTreeTest, KnownPagesStayAsTheyAre) {
  const auto prompt = Prompt({1, 2});
  const auto first = Insert(prompt, 2);
  Insert(prompt, 2);
  EXPECT_EQ(tree.pages(), 2);
  EXPECT_EQ(pool.free_count(), 14);
  tree.AttachSnapshot(prompt, 2, SnapshotId{1});
  EXPECT_THAT(tree.Find(prompt, 2).pages, ElementsAreArray(first));
}

TEST_P(PrefixTreeTest, TheLastPageMayBeFollowedByAnotherToken) {
  const auto prompt = Prompt({1, 2}, 5);
  const auto pages = Insert(prompt, 2);
  tree.AttachSnapshot(prompt, 2, SnapshotId{1});
  const auto other = Prompt({1, 2}, 6);
  EXPECT_THAT(tree.Find(other, 2).pages, ElementsAreArray(pages));
  // The state after it does not depend on that token: one snapshot is enough.
  Insert(other, 2);
  EXPECT_FALSE(tree.WantsSnapshot(other, 2));
}

TEST_P(PrefixTreeTest, EvictsTheLeastRecentlyUsedLeavesFirst) {
  const auto a = Prompt({1, 2});
  const auto b = Prompt({3, 4});
  Insert(a, 2);
  Insert(b, 2);
  tree.AttachSnapshot(a, 2, SnapshotId{1});
  tree.AttachSnapshot(b, 2, SnapshotId{2});
  tree.Find(a, 2);
  std::vector<SnapshotId> dropped;
  tree.Evict(2, dropped);
  EXPECT_THAT(dropped, ElementsAre(SnapshotId{2}));
  EXPECT_EQ(pool.free_count(), 14);
  EXPECT_EQ(tree.Find(b, 2).matched_pages, 0);
  EXPECT_EQ(tree.Find(a, 2).pages.size(), 2u);
}

TEST_P(PrefixTreeTest, NeverEvictsWhatASequenceHolds) {
  const auto prompt = Prompt({1, 2});
  const auto pages = Insert(prompt, 2);
  pool.Retain(std::span(pages).last(1));
  std::vector<SnapshotId> dropped;
  tree.Evict(2, dropped);
  EXPECT_EQ(tree.pages(), 2);
  EXPECT_EQ(pool.holders(pages[1]), 2);
  pool.Free(std::span(pages).last(1));
  tree.Evict(2, dropped);
  EXPECT_EQ(tree.pages(), 0);
  EXPECT_EQ(pool.free_count(), 16);
}

TEST_P(PrefixTreeTest, DropsTheLeastRecentlyUsedSnapshot) {
  const auto prompt = Prompt({1, 2});
  Insert(prompt, 2);
  EXPECT_FALSE(tree.DropSnapshot().has_value());
  tree.AttachSnapshot(prompt, 1, SnapshotId{1});
  tree.AttachSnapshot(prompt, 2, SnapshotId{2});
  tree.Find(prompt, 1);
  EXPECT_EQ(tree.DropSnapshot(), SnapshotId{2});
  EXPECT_EQ(tree.Find(prompt, 2).pages.size(), 1u);
}

/// Against a plain list of what was inserted.
TEST_P(PrefixTreeTest, RandomPromptsAreFoundAsFarAsTheyGo) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    PagePool many(512);
    PrefixTree forest(many, GetParam());
    std::vector<std::vector<TokenId>> known;
    for (int i = 0; i < 12; ++i) {
      const auto two = [&] { return static_cast<TokenId>(random() % 2); };
      const auto prompt = Prompt({two(), two(), two(), two()}, two());
      std::size_t expected = 0;
      for (const auto& other : known) {
        const auto differ = std::mismatch(prompt.begin(), prompt.end(), other.begin()).first;
        expected = std::max<std::size_t>(
            expected, static_cast<std::size_t>(differ - prompt.begin()) / kPageTokens);
      }
      EXPECT_EQ(forest.Find(prompt, 4).pages.size(), expected);
      const auto pages = many.Allocate(4).value();
      forest.Insert(prompt, pages);
      many.Free(pages);
      for (std::int64_t b = 1; b <= 4; ++b) {
        if (forest.WantsSnapshot(prompt, b)) {
          forest.AttachSnapshot(prompt, b, SnapshotId{static_cast<std::int64_t>(i * 4 + b)});
        }
      }
      known.push_back(prompt);
    }
    EXPECT_EQ(many.free_count() + forest.pages(), many.capacity());
  }
}

INSTANTIATE_TEST_SUITE_P(All, PrefixTreeTest, testing::Bool(), [](const auto& param_info) {
  return param_info.param ? std::string("WithDraft") : std::string("TargetOnly");
});

}  // namespace
}  // namespace kv8::test
