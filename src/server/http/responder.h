// The answer to one request, given from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/http_request.h"

namespace kv8 {

/// What a client can make the log say about one request: it may choose some of the words.
inline constexpr std::size_t kMaxNoteBytes = 300;

/// Takes either one Send, or BeginStream, any number of Writes and one End. All calls are
/// thread-safe and none blocks: bytes are handed to the I/O thread. What comes after the client has
/// gone is dropped. A responder that is destroyed unanswered answers 500, or cuts its stream short.
class Responder {
 public:
  virtual ~Responder() = default;

  /// The whole answer. `headers` go beside the ones of the transport (Content-Length, Date,
  /// X-Request-Id, CORS).
  virtual void Send(int status, std::string_view content_type, std::string body,
                    HttpHeaders headers = {}) = 0;

  /// Whose request it answers: HttpRequest::client.
  virtual std::size_t client() const { return 0; }

  /// The head of an answer whose body comes in pieces.
  virtual void BeginStream(int status, std::string_view content_type, HttpHeaders headers = {}) = 0;
  /// Sends a piece as soon as the client takes it. False when the client is gone, or is so slow
  /// that more than ServerLimits::stream_buffer bytes wait for it, which ends its connection: stop
  /// then.
  virtual bool Write(std::string_view piece) = 0;
  virtual void End() = 0;

  /// Adds a field to the request's line in the log, `text` cut to kMaxNoteBytes. Before the answer
  /// is complete. `name` must live on.
  virtual void Note(std::string_view name, std::string_view text) = 0;

  /// Calls `callback` once if the client goes, or is cut off, before the answer is complete; at
  /// once if that has happened. On the I/O thread, so it must be short. At most one callback.
  virtual void OnClose(std::function<void()> callback) = 0;
};

}  // namespace kv8
