#include "base/thread_pool.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace kv8 {
namespace {

// About 20 us of polling: longer than the serial gaps inside a decode step, shorter than a
// scheduler quantum, so that an idle pool costs nothing.
constexpr int kSpins = 4000;
// From then on whoever else wants the core may have it at once: that may be the thread waited for.
constexpr int kSpinsAlone = 500;
constexpr int kSpinsPerYield = 20;

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

/// Waits until a word is no longer `old`, at first awake.
void AwaitChange(const std::atomic<std::uint32_t>& word, std::uint32_t old) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (word.load(std::memory_order_acquire) != old) return;
    Pause();
    if (spins >= kSpinsAlone && spins % kSpinsPerYield == 0) std::this_thread::yield();
  }
  word.wait(old, std::memory_order_acquire);
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
  inside_.store(0, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  WorkOrKeep(0);
  // All is taken: who comes now would find nothing.
  std::uint32_t inside = inside_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  while (inside != kClosed) {
    AwaitChange(inside_, inside);
    inside = inside_.load(std::memory_order_acquire);
  }
  if (!threw_.load(std::memory_order_relaxed)) return;  // who left the loop has told what it did
  threw_.store(false, std::memory_order_relaxed);
  std::rethrow_exception(std::exchange(problem_, nullptr));
}

/// Takes the next piece from the front of the thread's own share, or from the back of another's.
/// Relaxed: what the loop reads and writes is ordered by inside_.
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
                 std::min(piece.end * loop_.grain, loop_.count), index);
    }
  }
}

/// An exception would end the process in a worker, and leave others at work in the caller.
void ThreadPool::WorkOrKeep(int index) noexcept {
  try {
    Work(index);
  } catch (...) {
    if (!threw_.exchange(true)) problem_ = std::current_exception();
  }
}

void ThreadPool::WorkerMain(int index) {
  std::uint32_t seen = 0;
  for (;;) {
    AwaitChange(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_) return;
    if (!Enter()) continue;
    WorkOrKeep(index);
    if (inside_.fetch_sub(1, std::memory_order_acq_rel) == kClosed + 1) inside_.notify_one();
  }
}

/// Joins the loop at hand, be it the one that woke this worker or a later one.
bool ThreadPool::Enter() {
  std::uint32_t inside = inside_.load(std::memory_order_relaxed);
  while ((inside & kClosed) == 0) {
    if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

}  // namespace kv8
