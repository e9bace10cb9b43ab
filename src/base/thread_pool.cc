#include "base/thread_pool.h"

#include <algorithm>

#include "base/checked.h"

namespace kv8 {
namespace {

// About 20 us of polling: longer than the serial gaps inside a decode step, shorter than a
// scheduler quantum, so that an idle pool costs nothing.
constexpr int kSpins = 4000;

// A thread takes its share in pieces down to this part of it: the first are long, since a cut costs
// some loops (a packed panel is packed twice), the last short, so that all end together.
constexpr std::int64_t kLeastPart = 16;
// Grains are counted in 32 bits.
constexpr std::int64_t kMostGrains = std::int64_t{1} << 31;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : shares_(static_cast<std::size_t>(std::max(1, threads))) {
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
  loop_.grain *= CeilDiv(CeilDiv(loop.count, loop.grain), kMostGrains);
  const std::int64_t grains = CeilDiv(loop.count, loop_.grain);
  least_ = static_cast<std::uint32_t>(CeilDiv(grains, kLeastPart * size()));
  for (int i = 0; i < size(); ++i) {
    const Grains share{static_cast<std::uint32_t>(grains * i / size()),
                       static_cast<std::uint32_t>(grains * (i + 1) / size())};
    shares_[static_cast<std::size_t>(i)].left.store(share, std::memory_order_relaxed);
  }
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  Work(0);
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

/// Takes the next piece from the front of the thread's own share, or from the back of another's.
/// Relaxed: what the loop reads and writes is ordered by generation_ and pending_.
ThreadPool::Grains ThreadPool::Take(Share& share, bool own) const {
  Grains left = share.left.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint32_t count = left.end - left.begin;
    if (count == 0) return {};
    const std::uint32_t kept = std::max(1u, own ? count / 4 : count / 2);
    const std::uint32_t piece = std::clamp(count - kept, std::min(count, least_), count);
    const std::uint32_t cut = own ? left.begin + piece : left.end - piece;
    const Grains taken = own ? Grains{left.begin, cut} : Grains{cut, left.end};
    const Grains rest = own ? Grains{cut, left.end} : Grains{left.begin, cut};
    if (share.left.compare_exchange_weak(left, rest, std::memory_order_relaxed)) return taken;
  }
}

void ThreadPool::Work(int index) {
  for (int i = 0; i < size(); ++i) {
    Share& share = shares_[static_cast<std::size_t>((index + i) % size())];
    for (;;) {
      const Grains piece = Take(share, i == 0);
      if (piece.begin == piece.end) break;
      loop_.call(loop_.context, piece.begin * loop_.grain,
                 std::min(piece.end * loop_.grain, loop_.count));
    }
  }
}

void ThreadPool::WorkerMain(int index) {
  std::uint32_t seen = 0;
  for (;;) {
    seen = WaitForLoop(seen);
    if (stop_) return;
    Work(index);
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
