// A fixed team of threads that runs one parallel loop at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/aligned.h"

namespace kv8 {

/// Runs loops whose iterations are cut into one contiguous share per thread; a thread that is done
/// with its own takes from those that are behind. What an iteration computes must not depend on the
/// cut: then results are the same for every thread count and every race. A loop waits for nobody
/// who has not begun: a worker that the system keeps from running, for other work's sake, is not
/// missed.
///
/// Workers spin briefly between loops (a decode step has over a hundred short ones) and sleep when
/// nothing comes. Loops must not nest, and only one thread may start them.
class ThreadPool {
 public:
  /// `threads` counts the caller: 1 means no worker at all. Values below 1 become 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(begin, end), or body(begin, end, thread) where the body wants to know which of the
  /// pool's threads runs it, 0 being the caller, on disjoint ranges that cover [0, count), each a
  /// multiple of `grain` long except the last. Returns when all are done. Runs inline when one
  /// range is enough. What a body throws, such as for lack of memory, is thrown when all threads
  /// are done: the first of it. The rest of the loop may or may not have been computed.
  template <class Body>
  void ParallelFor(std::int64_t count, std::int64_t grain, Body&& body) {
    if (count <= 0) return;
    if (workers_.empty() || count <= grain) {
      Call(body, 0, count, 0);
      return;
    }
    using Stored = std::remove_reference_t<Body>;
    Run(Loop{count, grain, const_cast<void*>(static_cast<const void*>(&body)),
             [](void* context, std::int64_t begin, std::int64_t end, int thread) {
               Call(*static_cast<Stored*>(context), begin, end, thread);
             }});
  }

 private:
  struct Loop {
    std::int64_t count = 0;
    std::int64_t grain = 1;
    void* context = nullptr;
    void (*call)(void*, std::int64_t, std::int64_t, int) = nullptr;
  };
  template <class Body>
  static void Call(Body& body, std::int64_t begin, std::int64_t end, int thread) {
    if constexpr (std::is_invocable_v<Body&, std::int64_t, std::int64_t, int>) {
      body(begin, end, thread);
    } else {
      body(begin, end);
    }
  }
  static constexpr std::uint32_t kClosed = std::uint32_t{1} << 31;
  /// One aligned word: atomic without a lock, for clang too.
  struct alignas(std::uint64_t) Grains {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  /// What nobody has taken of a thread's share. On a cache line of its own: while all keep up, only
  /// its thread writes to it.
  struct alignas(kCacheLine) Share {
    std::atomic<Grains> left{Grains{}};
  };

  void Run(const Loop& loop);
  void WorkOrKeep(int index) noexcept;
  Grains Take(Share& share, bool own) const;
  void Work(int index);
  bool Enter();
  void WorkerMain(int index);

  std::vector<std::thread> workers_;
  std::vector<Share> shares_;                   // one per thread, the caller's first
  Loop loop_;                                   // written by the caller while inside_ is closed
  std::uint32_t least_ = 1;                     // grains taken at a time; written like loop_
  std::atomic<std::uint32_t> generation_{0};    // counts loops; workers wait for it to change
  std::atomic<std::uint32_t> inside_{kClosed};  // workers in the loop; kClosed: no more may enter
  std::atomic<bool> stop_{false};
  std::atomic<bool> threw_{false};  // a body, in the loop at hand
  std::exception_ptr problem_;      // what it threw; read when all are done
};

}  // namespace kv8
