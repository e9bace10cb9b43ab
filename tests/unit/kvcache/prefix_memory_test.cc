// Memory that runs out while the prefix tree grows: what it has is whole, and no page is lost.
#include <gtest/gtest.h>

#include <vector>

#include "kvcache/prefix_tree.h"
#include "support/poor_memory.h"

namespace kv8::test {
namespace {

TEST(PrefixMemory, ATreeThatFoundNoneHasWholeNodesOnly) {
  std::vector<TokenId> prompt(3 * kPageTokens + 1, 1);
  prompt[2 * kPageTokens] = 2;
  int failures = 0;
  for (std::int64_t n = 0;; ++n) {
    PagePool pool(8);
    {
      PrefixTree tree(pool, /*with_draft=*/false);
      const auto first = pool.Allocate(1).value();
      tree.Insert(prompt, first);
      pool.Free(first);
      const auto pages = pool.Allocate(3).value();
      const bool failed = RunsOutOfMemory(n, [&] {
        tree.Insert(prompt, pages);
        tree.AttachSnapshot(prompt, 3, SnapshotId{5});
      });
      failures += failed ? 1 : 0;
      // All that the tree holds can be found, used and given up.
      EXPECT_EQ(tree.page_ids().size(), static_cast<std::size_t>(tree.pages()));
      tree.Insert(prompt, pages);
      pool.Free(pages);
      EXPECT_EQ(tree.pages(), 3);
      EXPECT_EQ(pool.free_count(), 5);
      if (tree.WantsSnapshot(prompt, 3)) tree.AttachSnapshot(prompt, 3, SnapshotId{6});
      EXPECT_EQ(tree.snapshots(), 1);
      EXPECT_EQ(tree.Find(prompt, 3).pages.size(), 3u);
      std::vector<SnapshotId> dropped;
      tree.Evict(1, dropped);
      EXPECT_EQ(dropped.size(), 1u);
      EXPECT_EQ(tree.pages(), 2);
      if (!failed) break;
    }
    EXPECT_EQ(pool.free_count(), 8);
  }
  EXPECT_GT(failures, 5);
}

}  // namespace
}  // namespace kv8::test
