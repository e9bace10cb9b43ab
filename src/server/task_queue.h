// One thread that does what takes too long for the I/O thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace kv8 {

class TaskQueue {
 public:
  explicit TaskQueue(std::size_t max_waiting);
  /// Waits for the task in hand and drops those in line.
  ~TaskQueue();

  /// Puts a task in line. False when the line is full.
  bool Post(std::function<void()> task);

 private:
  void Run();

  const std::size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace kv8
