// Finds masks in threads of their own, so that one costly constraint does not delay others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "kv8/constraint.h"

namespace kv8 {

/// A constraint that a worker may be using; then nothing else may use it until it is ready.
struct ConstraintPlace {
  std::unique_ptr<TokenConstraint> constraint;
  std::int64_t work = 0;  // of the next attempt to find its mask
  std::atomic<bool> ready{true};
  bool exhausted = false;  // it found no memory, and can be followed no further

  /// `call(*constraint)`; false where there is no memory for it.
  template <class Call>
  bool Try(const Call& call) {
    if (exhausted) return false;
    try {
      return call(*constraint);
    } catch (const std::bad_alloc&) {
      exhausted = true;
      return false;
    }
  }
  /// Whether the mask is found within so much work, or never will be.
  bool Prepare(std::int64_t limit) {
    return Try([limit](TokenConstraint& c) { return c.Prepare(limit); }) || exhausted;
  }
};

/// Threads that find the masks that would hold up the engine's thread. Masks that have cost least
/// so far come first, and each attempt may cost more than the last, so that no cheap mask waits for
/// a costly one. The
/// threads start with the first mask that needs them. All calls are made by one thread.
class MaskWorker {
 public:
  MaskWorker() = default;
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  /// Finds the place's next mask: at once where that is cheap, else in a thread, until when the
  /// place is not ready.
  void Prepare(const std::shared_ptr<ConstraintPlace>& place);
  /// Waits until a place has become ready, a short while at most.
  void Wait();

 private:
  void Main();
  void Queue(const std::shared_ptr<ConstraintPlace>& place);
  std::shared_ptr<ConstraintPlace> Take();

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::vector<std::shared_ptr<ConstraintPlace>> places_;
  std::uint64_t finished_ = 0;
  std::uint64_t seen_ = 0;  // of finished_, by Wait
  bool stop_ = false;
};

/// Work on the engine's thread for one mask: less than a millisecond.
inline constexpr std::int64_t kInlineMaskWork = 10'000;

}  // namespace kv8
