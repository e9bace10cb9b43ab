// A connection as its session sees it: plain or TLS.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace kv8 {

/// Calls come from the I/O thread, and so do callbacks, never from inside the call. At most one
/// read and one write are under way. What a callback holds is let go once it ran.
class Stream {
 public:
  /// `ok` false: the peer ended the connection, or it failed.
  using Done = std::function<void(bool ok, std::size_t bytes)>;

  virtual ~Stream() = default;
  virtual void Handshake(Done done) = 0;
  /// Some bytes, at least one.
  virtual void ReadSome(char* data, std::size_t size, Done done) = 0;
  virtual void WriteSome(const char* data, std::size_t size, Done done) = 0;
  /// No more is sent; what the peer still sends can be read.
  virtual void FinishSending(Done done) = 0;
  /// Ends what is under way, with ok = false.
  virtual void Close() = 0;
  /// The peer's address, for the log.
  virtual std::string peer() const = 0;
};

/// The I/O thread's queue.
class IoLoop {
 public:
  virtual ~IoLoop() = default;
  /// Runs `work` on the I/O thread. From any thread.
  virtual void Post(std::function<void()> work) = 0;
  /// Runs `work` after ServerLimits::stream_interval, or before that together with what was posted
  /// earlier. On the I/O thread only.
  virtual void PostLater(std::function<void()> work) = 0;
};

}  // namespace kv8
