#include "base/thread_pool.h"

#include <algorithm>

#include "base/checked.h"

namespace kv8 {
namespace {

// About 20 us of polling: longer than the serial gaps inside a decode step, shorter than a
// scheduler quantum, so that an idle pool costs nothing.
constexpr int kSpins = 4000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { WorkerMain(i); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(const Loop& loop) {
  loop_ = loop;
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  RunShare(0);
  for (int spins = 0;; ++spins) {
    const int left = pending_.load(std::memory_order_acquire);
    if (left == 0) return;
    if (spins < kSpins) {
      Pause();
    } else {
      pending_.wait(left, std::memory_order_acquire);
    }
  }
}

void ThreadPool::RunShare(int index) const {
  const std::int64_t grains = CeilDiv(loop_.count, loop_.grain);
  const std::int64_t begin = grains * index / size() * loop_.grain;
  const std::int64_t end = std::min(grains * (index + 1) / size() * loop_.grain, loop_.count);
  if (begin < end) loop_.call(loop_.context, begin, end);
}

void ThreadPool::WorkerMain(int index) {
  std::uint32_t seen = 0;
  for (;;) {
    seen = WaitForLoop(seen);
    if (stop_) return;
    RunShare(index);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

std::uint32_t ThreadPool::WaitForLoop(std::uint32_t seen) const {
  for (int spins = 0;; ++spins) {
    const std::uint32_t now = generation_.load(std::memory_order_acquire);
    if (now != seen) return now;
    if (spins < kSpins) {
      Pause();
    } else {
      generation_.wait(seen, std::memory_order_acquire);
    }
  }
}

}  // namespace kv8
