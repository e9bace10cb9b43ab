// What one client may take.
#pragma once

#include <chrono>
#include <cstddef>

namespace kv8 {

struct ServerLimits {
  std::size_t header_bytes = 32 << 10;  // request line and headers; more: 431
  std::size_t header_count = 100;       // more: 431
  std::size_t body_bytes = 16 << 20;    // more: 413
  /// Bodies in memory, from their first byte until a handler has read them; more: 503.
  std::size_t all_bodies_bytes = 256 << 20;
  std::size_t connections = 1024;       // more wait in the kernel's backlog
  std::size_t stream_buffer = 1 << 20;  // bytes that may wait for a slow reader of a stream
  /// Pieces of a stream that follow each other faster go out together: a send of its own, and the
  /// wakes around it, would cost too much of such a piece's time.
  std::chrono::milliseconds stream_gap{5};
  /// How long they may wait for each other: 30 times a second more tokens come than anyone reads.
  /// So long may the head of a stream wait for the first piece, too.
  std::chrono::milliseconds stream_interval{33};
  /// From the first byte of a request to the end of its headers, and of a connection to its first.
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};      // from the headers to the end of the body
  std::chrono::milliseconds idle_timeout{75'000};      // between two requests of a connection
  std::chrono::milliseconds write_timeout{30'000};     // without one byte taken by the client
  std::chrono::milliseconds shutdown_timeout{30'000};  // for the answers under way
};

}  // namespace kv8
