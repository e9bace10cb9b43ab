#include "engine/mask_worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kv8 {
namespace {

constexpr int kThreads = 2;  // so that short attempts go on beside a long one
constexpr std::int64_t kGrowth = 8;
constexpr std::int64_t kMostWork = std::int64_t{1} << 40;
constexpr std::chrono::milliseconds kLongestWait{10};

}  // namespace

MaskWorker::~MaskWorker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void MaskWorker::Prepare(const std::shared_ptr<ConstraintPlace>& place) {
  if (place->Prepare(kInlineMaskWork)) return;
  place->work = kInlineMaskWork * kGrowth;
  threads_.reserve(kThreads);
  while (threads_.size() < kThreads) threads_.emplace_back([this] { Main(); });
  place->ready.store(false, std::memory_order_relaxed);
  Queue(place);
}

/// A place for which there is no room is ready, and has failed.
void MaskWorker::Queue(const std::shared_ptr<ConstraintPlace>& place) {
  try {
    const std::lock_guard lock(mutex_);
    places_.push_back(place);
  } catch (const std::bad_alloc&) {
    place->exhausted = true;
    place->ready.store(true, std::memory_order_release);
    return;
  }
  wake_.notify_one();
}

void MaskWorker::Wait() {
  std::unique_lock lock(mutex_);
  done_.wait_for(lock, kLongestWait, [this] { return finished_ != seen_; });
  seen_ = finished_;
}

/// The place whose next attempt is the shortest; null when it is time to stop.
std::shared_ptr<ConstraintPlace> MaskWorker::Take() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stop_ || !places_.empty(); });
  if (stop_) return nullptr;
  const auto next =
      std::ranges::min_element(places_, {}, [](const auto& place) { return place->work; });
  std::shared_ptr<ConstraintPlace> place = std::move(*next);
  places_.erase(next);
  return place;
}

void MaskWorker::Main() {
  while (const std::shared_ptr<ConstraintPlace> place = Take()) {
    const bool wanted = place.use_count() > 1;  // else its sequence has ended
    if (wanted && !place->Prepare(place->work)) {
      place->work = std::min(place->work * kGrowth, kMostWork);
      Queue(place);
      continue;
    }
    place->ready.store(true, std::memory_order_release);
    {
      const std::lock_guard lock(mutex_);
      ++finished_;
    }
    done_.notify_one();
  }
}

}  // namespace kv8
