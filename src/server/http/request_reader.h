// Turns the bytes of a connection into one request. No sockets: what a fuzz target feeds.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/error_body.h"
#include "server/http/http_request.h"
#include "server/http/limits.h"

namespace kv8 {

/// Reads HTTP/1.0 and 1.1 as RFC 9112 says, and refuses what two readers could understand
/// differently: two lengths, no Host or two, codings of the transfer but chunked.
class RequestReader {
 public:
  enum class State {
    kHead,      // the head is not complete
    kHeadDone,  // it is, and the body was not looked at: decide whether to go on
    kBody,      // the body is not complete
    kDone,
    kFailed,  // error() says why; the connection has no next request
  };

  explicit RequestReader(const ServerLimits& limits);
  ~RequestReader();

  /// Takes what it can use and returns how many bytes that were; the rest must come again, with
  /// what follows. Stops at the states between its parts.
  std::size_t Feed(std::string_view bytes);

  State state() const { return state_; }
  const HttpError& error() const { return error_; }
  /// Whole after kDone, but for the body after kHeadDone. `id` is the client's, if it has one.
  HttpRequest& request() { return request_; }

  // From kHeadDone on.
  bool has_body() const { return has_body_; }
  bool wants_continue() const { return wants_continue_; }
  bool keep_alive() const { return keep_alive_; }
  bool http_1_0() const { return http_1_0_; }
  /// Of the body, so far. It takes up to twice as much address space, but no more memory.
  std::size_t body_bytes() const;

 private:
  struct Parser;

  std::size_t FeedHead(std::string_view bytes);
  std::size_t FeedBody(std::string_view bytes);
  bool TakeHead();
  bool CheckFraming();
  bool TakeTarget();
  bool Fail(int status, std::string message);

  const ServerLimits limits_;
  std::unique_ptr<Parser> parser_;
  State state_ = State::kHead;
  HttpError error_;
  HttpRequest request_;
  bool has_body_ = false;
  bool wants_continue_ = false;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
};

}  // namespace kv8
