// Pages are handed out once, shared by count, and come back when nobody holds them.
#include "kvcache/page_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace kv8::test {
namespace {

TEST(PagePool, HandsOutEachPageOnce) {
  PagePool pool(4);
  const auto a = pool.Allocate(3).value();
  const auto b = pool.Allocate(1).value();
  std::set<PageId> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(pool.free_count(), 0);
}

TEST(PagePool, RefusesWithBothNumbersAndTakesNothing) {
  PagePool pool(4);
  const auto refused = pool.Allocate(5);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_NE(refused.error().what.find('5'), std::string::npos);
  EXPECT_NE(refused.error().what.find('4'), std::string::npos);
  EXPECT_EQ(pool.free_count(), 4);
}

TEST(PagePool, ASharedPageIsFreeWhenTheLastHolderLetsGo) {
  PagePool pool(1);
  const auto page = pool.Allocate(1).value();
  pool.Retain(page);
  EXPECT_EQ(pool.holders(page[0]), 2);
  pool.Free(page);
  EXPECT_EQ(pool.free_count(), 0);
  pool.Free(page);
  EXPECT_EQ(pool.free_count(), 1);
  EXPECT_EQ(pool.holders(page[0]), 0);
}

}  // namespace
}  // namespace kv8::test
