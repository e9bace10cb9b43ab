#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace kv8 {
namespace {

class ThreadPoolSizes : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolSizes, EveryIterationRunsOnce) {
  ThreadPool pool(GetParam());
  for (const std::int64_t count : {0, 1, 2, 7, 64, 1000}) {
    for (const std::int64_t grain : {1, 3, 64}) {
      std::vector<int> hits(static_cast<std::size_t>(count), 0);
      pool.ParallelFor(count, grain, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_EQ(begin % grain, 0);
        for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
      });
      for (const int hit : hits) EXPECT_EQ(hit, 1);
    }
  }
}

TEST_P(ThreadPoolSizes, WhatABodyThrowsReachesTheCallerWhenAllAreDone) {
  ThreadPool pool(GetParam());
  for (const bool in_all : {false, true}) {
    std::atomic<int> inside{0};
    const auto body = [&](std::int64_t begin, std::int64_t end) {
      ++inside;
      if (begin == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      --inside;
      if (in_all || end == 64) throw std::bad_alloc();
    };
    EXPECT_THROW(pool.ParallelFor(64, 1, body), std::bad_alloc);
    EXPECT_EQ(inside, 0);
  }
  std::atomic<std::int64_t> done{0};
  pool.ParallelFor(100, 1, [&](std::int64_t begin, std::int64_t end) { done += end - begin; });
  EXPECT_EQ(done, 100) << "the next loop knows nothing of it";
}

TEST_P(ThreadPoolSizes, WakesAfterASleep) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<int> hits(100, 0);
    pool.ParallelFor(100, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) hits[static_cast<std::size_t>(i)] = 1;
    });
    EXPECT_EQ(hits, std::vector<int>(100, 1));
  }
}

TEST_P(ThreadPoolSizes, OthersTakeTheShareOfAThreadThatIsBehind) {
  ThreadPool pool(GetParam());
  constexpr std::int64_t kCount = 1000;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::atomic<std::int64_t> others{0};
  std::int64_t held = 0;
  pool.ParallelFor(kCount, 1, [&](std::int64_t begin, std::int64_t end) {
    if (begin > 0 || pool.size() == 1) {
      others += end - begin;
      return;
    }
    held = end - begin;  // goes on when all that this thread has not begun is done
    while (others < kCount - held && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(others + held, kCount);
  EXPECT_LT(held, kCount / std::max(2, pool.size()));
  EXPECT_LT(std::chrono::steady_clock::now(), deadline) << "nobody took it";
}

/// Loops so short that they are over before some threads come.
TEST_P(ThreadPoolSizes, LatecomersLeaveTheNextLoopAlone) {
  ThreadPool pool(GetParam());
  for (std::int64_t loop = 0; loop < 3000; ++loop) {
    std::vector<std::int64_t> values(3, -1);
    pool.ParallelFor(3, 1, [&values, loop](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] = loop + i;
    });
    ASSERT_EQ(values, (std::vector<std::int64_t>{loop, loop + 1, loop + 2}));
  }
}

INSTANTIATE_TEST_SUITE_P(OneToFive, ThreadPoolSizes, testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace kv8
