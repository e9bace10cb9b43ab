// Writes a log's lines to a file descriptor whose reader may not read.
#pragma once

#include <atomic>
#include <chrono>
#include <string_view>

namespace kv8 {

/// A blocking write to a pipe that nobody empties would never return, and nothing could end the
/// thread that is in it. This one waits for room in steps, so that Stop ends it.
class LineWriter {
 public:
  /// `fd` stays the caller's.
  explicit LineWriter(int fd);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// Waits until the whole line is written. False when it is lost: the reader has gone, the disk is
  /// full, or the time that Stop left is over. One thread at a time.
  bool Write(std::string_view line);
  /// From `grace` after now on, what cannot be written at once is lost. From any thread.
  void Stop(std::chrono::milliseconds grace);

 private:
  using Clock = std::chrono::steady_clock;

  bool AwaitRoom() const;

  const int given_;
  const int fd_;  // of its own where that can be had: then no write waits
  const bool socket_;
  std::atomic<Clock::time_point> end_{Clock::time_point::max()};
};

}  // namespace kv8
