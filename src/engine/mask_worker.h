// Finds masks beside the engine's thread, so that one constraint's cost is not its neighbours'.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kv8/constraint.h"

namespace kv8 {

/// A constraint that may be in a worker's hands. Nobody else touches it until it is ready.
struct ConstraintPlace {
  std::unique_ptr<TokenConstraint> constraint;
  std::int64_t work = 0;  // of the next attempt to find its mask
  std::atomic<bool> ready{true};
};

/// Threads that find masks which take longer than the engine's thread should. What was cheap so far
/// comes first and every attempt may take more, so that a cheap mask waits for no costly one. The
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
