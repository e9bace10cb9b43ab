// Reads of many small parts of files, which may be under way while the caller works.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "kv8/error.h"

namespace kv8 {

/// Where some bytes come from and where they go.
struct FilePart {
  int fd = -1;
  std::int64_t offset = 0;
  std::byte* to = nullptr;
  std::int64_t bytes = 0;
};

/// A queue of reads that the kernel works on by itself.
class ReadQueue {
 public:
  struct Answer {
    std::size_t part = 0;
    std::int64_t result = 0;  // bytes, or an error number below 0
  };
  virtual ~ReadQueue() = default;
  /// Begins to read parts[first] and as many behind it as there is room for. Returns how many.
  virtual std::size_t Begin(std::span<const FilePart> parts, std::size_t first) = 0;
  /// Waits for the answer to one of them.
  virtual Answer Wait() = 0;
};

/// io_uring. Errors: kUnsupported with the kernel's reason, such as a sandbox that forbids it.
Result<std::unique_ptr<ReadQueue>> OpenRing();

/// pread(2), or what a test puts in its place.
using ReadCall = ssize_t(int fd, void* to, std::size_t bytes, off_t offset);

/// Reads parts whole: what a queue or a call leaves out is asked for again.
class PartReader {
 public:
  /// A part that cannot be read.
  struct Failure {
    std::size_t part = 0;
    int number = 0;  // of the system's error; 0: the file ends before the part does
  };

  /// Without a queue, by calls, the pool's threads side by side.
  explicit PartReader(std::unique_ptr<ReadQueue> queue, ReadCall* call = ::pread)
      : queue_(std::move(queue)), call_(call) {}
  PartReader(const PartReader&) = delete;
  PartReader& operator=(const PartReader&) = delete;
  ~PartReader() { Finish(); }

  bool has_queue() const { return queue_ != nullptr; }
  /// The parts and their memory must stay until Finish. What was started before must be finished.
  void Start(std::span<const FilePart> parts, ThreadPool& pool);
  /// Waits until every part is read or has failed; the first in their order that has.
  std::optional<Failure> Finish();

 private:
  void Settle(const ReadQueue::Answer& answer);
  void ReadRest(std::size_t part, std::int64_t done);
  void Fail(std::size_t part, int number);

  std::unique_ptr<ReadQueue> queue_;
  ReadCall* call_;
  std::span<const FilePart> parts_;
  std::size_t begun_ = 0, answered_ = 0;
  std::mutex mutex_;
  std::optional<Failure> failure_;
};

}  // namespace kv8
