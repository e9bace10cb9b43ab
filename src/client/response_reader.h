// Reads the answer to one HTTP/1.1 request from bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kv8/error.h"

namespace kv8 {

/// Bytes that a head, a chunk's line or a trailer may have.
inline constexpr std::size_t kResponseHeadBytes = 64 << 10;

class ResponseReader {
 public:
  /// `body_limit`: bytes, after chunks are put together.
  explicit ResponseReader(std::size_t body_limit);
  ~ResponseReader();

  /// Takes bytes from the front of `waiting`; call again with what is left and what has come since.
  /// Errors, without `where`: kCorrupt for what HTTP does not allow; kResourceExhausted beyond the
  /// limits. Interim answers (1xx) are skipped.
  Result<void> Feed(std::string& waiting);
  /// The connection has ended. Errors: kIo when the answer has not.
  Result<void> FeedEnd();

  bool head_done() const;
  bool done() const;
  /// Once the head is done.
  int status() const;
  std::string content_type() const;  // as it was sent; empty without one
  bool keep_alive() const;

  /// The body that has come and was not taken yet.
  std::string TakeBody();

 private:
  struct Parser;
  void Restart();

  std::size_t body_limit_;
  std::unique_ptr<Parser> parser_;
  std::string body_;
};

}  // namespace kv8
