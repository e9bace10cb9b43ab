// Blocks are handed out once, shared by count, and come back when nobody holds them.
#include "kvcache/block_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace kv8::test {
namespace {

TEST(BlockPool, HandsOutEachBlockOnce) {
  BlockPool pool(4);
  const auto a = pool.Allocate(3).value();
  const auto b = pool.Allocate(1).value();
  std::set<BlockId> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(pool.free_count(), 0);
}

TEST(BlockPool, RefusesWithBothNumbersAndTakesNothing) {
  BlockPool pool(4);
  const auto refused = pool.Allocate(5);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_NE(refused.error().what.find('5'), std::string::npos);
  EXPECT_NE(refused.error().what.find('4'), std::string::npos);
  EXPECT_EQ(pool.free_count(), 4);
}

TEST(BlockPool, ASharedBlockIsFreeWhenTheLastHolderLetsGo) {
  BlockPool pool(1);
  const auto block = pool.Allocate(1).value();
  pool.Retain(block);
  EXPECT_EQ(pool.holders(block[0]), 2);
  pool.Free(block);
  EXPECT_EQ(pool.free_count(), 0);
  pool.Free(block);
  EXPECT_EQ(pool.free_count(), 1);
  EXPECT_EQ(pool.holders(block[0]), 0);
}

}  // namespace
}  // namespace kv8::test
