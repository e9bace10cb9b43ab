// What the answers of all endpoints have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_writer.h"
#include "kv8/request.h"
#include "server/http/error_body.h"
#include "server/http/responder.h"

namespace kv8::openai {

inline constexpr std::string_view kJsonType = "application/json";
/// When a client that found the line full may try again: lines move every step.
inline constexpr int kRetryAfterSeconds = 1;

/// Names one answer.
struct AnswerHead {
  std::string id;            // "cmpl-..."
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
};

/// A head with a new id of 128 random bits behind `prefix`.
AnswerHead NewHead(std::string_view prefix, std::string model);
/// An id by itself, such as that of a tool call.
std::string NewId(std::string_view prefix);

/// "id", "object", "created" and "model" of an answer that is an open object.
void WriteHead(JsonWriter& json, const AnswerHead& head, std::string_view object);

/// "stop" or "length"; null while a choice goes on.
void WriteFinishReason(JsonWriter& json, FinishReason reason);

/// The status and body of a failure.
HttpError HttpErrorOf(const Error& error);
/// Sends a failure as the whole answer.
void SendFailure(Responder& responder, const Error& error);

/// A stream of server-sent events, each one JSON object. Used by one thread at a time.
class EventStream {
 public:
  /// `opening`: how each object begins, "{" included. A comma follows if members do.
  EventStream(std::shared_ptr<Responder> responder, std::string opening);

  /// Sends the head of the answer.
  void Begin();
  bool begun() const { return begun_; }

  /// The object of the next event, open: the caller adds members by a JsonWriter and calls Send.
  std::string& Open();
  /// Closes the object that Open opened and sends it. False when the client is gone.
  bool Send();
  /// Sends an event with a name and an object that is complete.
  bool SendNamed(std::string_view name, std::string_view json);

  /// The last event, "[DONE]", and the end of the answer.
  void Done();
  /// The end of the answer.
  void End();
  /// A failure: the whole answer before Begin; in an open stream an event that holds it.
  void Fail(const Error& error);

 private:
  const std::shared_ptr<Responder> responder_;
  const std::string opening_;
  std::string event_;
  bool begun_ = false;
};

}  // namespace kv8::openai
