#include "server/task_queue.h"

#include <exception>
#include <utility>

namespace kv8 {

TaskQueue::TaskQueue(std::size_t max_waiting)
    : max_waiting_(max_waiting), thread_([this] { Run(); }) {}

TaskQueue::~TaskQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool TaskQueue::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.size() >= max_waiting_) return false;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
  return true;
}

void TaskQueue::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    try {
      task();
    } catch (const std::exception&) {
      // No memory, not even to say so: the end of what the task holds does.
    }
    task = nullptr;  // what it holds is let go outside of the lock
    lock.lock();
  }
}

}  // namespace kv8
