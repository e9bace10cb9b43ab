// A client of an OpenAI-compatible server, kv8's or another.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

struct ClientLimits {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds head{600'000};          // from the end of the request; prefill is in it
  std::chrono::milliseconds between_bytes{60'000};  // of the answer behind its head, or a request
  std::size_t body_bytes = 256 << 20;               // of an answer, a stream's too
};

struct ClientOptions {
  std::string api_key;  // sent as a bearer token; empty: none
  ClientLimits limits;
};

/// One event of a stream.
struct StreamEvent {
  const std::string& name;  // of its `event` field; empty for chats and completions
  const Json& data;
  std::chrono::steady_clock::time_point arrived;  // when its last byte was read
};

/// False: no more is wanted, and the connection is closed.
using StreamEventFn = std::function<bool(const StreamEvent&)>;

/// Blocking, with one connection that is kept for the next request; each thread needs an object of
/// its own. A path begins with a slash: "/v1/completions", "/metrics".
///
/// Errors of all requests, naming method and URL: kIo when the server cannot be reached, is too
/// slow, closes in the middle or answers 5xx or 429; kNotFound for 404, kInvalidArgument for other
/// 4xx, with the server's message; kCorrupt for what is not HTTP, not the type that was asked for
/// or not JSON; kResourceExhausted for an answer that is too long. Redirects are not followed.
/// Nothing is sent twice.
class HttpClient {
 public:
  /// Connects with the first request. Errors: those of ParseServerUrl; kInvalidArgument for a key
  /// that no header can hold.
  static Result<HttpClient> Create(std::string_view url, ClientOptions options);
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  Result<Json> GetJson(const std::string& path);
  /// Of any type, such as metrics.
  Result<std::string> GetText(const std::string& path);
  Result<Json> PostJson(const std::string& path, const Json& body);
  /// Calls `on_event` for each event up to "[DONE]", which must come. Errors: also kIo, with the
  /// server's message, for an event with an "error".
  Result<void> PostStream(const std::string& path, const Json& body, const StreamEventFn& on_event);

  /// Scheme, host, port and base path.
  const std::string& url() const;

 private:
  class Impl;
  explicit HttpClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv8
