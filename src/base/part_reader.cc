#include "base/part_reader.h"

#include <fmt/format.h>
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kv8 {
namespace {

/// Reads that are begun before the first answer is looked at. A step of decode asks for some
/// dozens.
constexpr unsigned kDepth = 256;
/// Parts that a thread reads by calls before it looks for more: a call takes microseconds.
constexpr std::int64_t kGrain = 4;

bool IsTransient(int number) {
  return number == EINTR || number == EAGAIN || number == EBUSY;
}

class Ring final : public ReadQueue {
 public:
  Ring() : status_(::io_uring_queue_init(kDepth, &ring_, 0)) {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() override {
    if (status_ == 0) ::io_uring_queue_exit(&ring_);
  }
  int status() const { return status_; }

  std::size_t Begin(std::span<const FilePart> parts, std::size_t first) override {
    std::size_t count = 0;
    // No more than the queue of answers has room for.
    for (; first + count < parts.size() && under_way_ < kDepth; ++count, ++under_way_) {
      io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
      if (entry == nullptr) break;
      const FilePart& part = parts[first + count];
      ::io_uring_prep_read(entry, part.fd, part.to, static_cast<unsigned>(part.bytes),
                           static_cast<std::uint64_t>(part.offset));
      ::io_uring_sqe_set_data64(entry, first + count);
    }
    ::io_uring_submit(&ring_);  // what it does not take, Wait submits
    return count;
  }

  Answer Wait() override {
    io_uring_cqe* entry = nullptr;
    while (::io_uring_peek_cqe(&ring_, &entry) != 0) {
      const int status = ::io_uring_submit_and_wait(&ring_, 1);
      // With descriptor and ring in order the kernel has no other reason to refuse a wait.
      if (status < 0 && !IsTransient(-status)) return {0, status};
    }
    const Answer answer{static_cast<std::size_t>(::io_uring_cqe_get_data64(entry)), entry->res};
    ::io_uring_cqe_seen(&ring_, entry);
    --under_way_;
    return answer;
  }

 private:
  io_uring ring_{};
  int status_;
  unsigned under_way_ = 0;
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> OpenRing() {
  auto ring = std::make_unique<Ring>();
  if (ring->status() == 0) return std::unique_ptr<ReadQueue>(std::move(ring));
  return Error{Code::kUnsupported,
               fmt::format("the kernel refuses io_uring: {}", std::strerror(-ring->status())), "",
               "allow it with sysctl kernel.io_uring_disabled=0, or in the sandbox's profile"};
}

void PartReader::Start(std::span<const FilePart> parts, ThreadPool& pool) {
  parts_ = parts;
  begun_ = answered_ = 0;
  failure_.reset();
  if (queue_ != nullptr) {
    if (!parts.empty()) begun_ = queue_->Begin(parts_, 0);
    return;
  }
  pool.ParallelFor(std::ssize(parts), kGrain, [this](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ReadRest(static_cast<std::size_t>(i), 0);
  });
  answered_ = parts.size();
}

std::optional<PartReader::Failure> PartReader::Finish() {
  for (; answered_ < parts_.size(); ++answered_) {
    if (begun_ < parts_.size()) begun_ += queue_->Begin(parts_, begun_);
    Settle(queue_->Wait());
  }
  return failure_;
}

void PartReader::Settle(const ReadQueue::Answer& answer) {
  if (answer.result >= 0) return ReadRest(answer.part, answer.result);
  const auto number = static_cast<int>(-answer.result);
  if (IsTransient(number)) return ReadRest(answer.part, 0);
  Fail(answer.part, number);
}

void PartReader::ReadRest(std::size_t part, std::int64_t done) {
  const FilePart& p = parts_[part];
  while (done < p.bytes) {
    const ssize_t n =
        call_(p.fd, p.to + done, static_cast<std::size_t>(p.bytes - done), p.offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Fail(part, n < 0 ? errno : 0);
    done += n;
  }
}

void PartReader::Fail(std::size_t part, int number) {
  const std::lock_guard lock(mutex_);
  if (!failure_ || part < failure_->part) failure_ = Failure{part, number};
}

}  // namespace kv8
