#include "server/openai/answer.h"

#include <fmt/format.h>

#include <chrono>
#include <random>
#include <utility>

#include "server/engine_service.h"

namespace kv8::openai {
namespace {

int StatusOf(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kTooLong:
    case Code::kMismatch:
    case Code::kUnsupported:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kResourceExhausted:
      return 429;
    case Code::kCancelled:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

std::string NewId(std::string_view prefix) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

AnswerHead NewHead(std::string_view prefix, std::string model) {
  using std::chrono::duration_cast, std::chrono::seconds, std::chrono::system_clock;
  return {.id = NewId(prefix),
          .created = duration_cast<seconds>(system_clock::now().time_since_epoch()).count(),
          .model = std::move(model)};
}

void WriteHead(JsonWriter& json, const AnswerHead& head, std::string_view object) {
  json.Key("id").String(head.id).Key("object").String(object);
  json.Key("created").Integer(head.created).Key("model").String(head.model);
}

void WriteFinishReason(JsonWriter& json, FinishReason reason) {
  if (reason == FinishReason::kStop) {
    json.String("stop");
  } else if (reason == FinishReason::kLength) {
    json.String("length");
  } else {
    json.Null();
  }
}

HttpError HttpErrorOf(const Error& error) {
  if (IsOutOfMemory(error)) return OutOfMemory();
  const int status = StatusOf(error.code);
  if (status == 500) {
    // Files and addresses of the server are its own business.
    return {.status = status,
            .message = "The server failed to compute the answer; its log says why.",
            .cause = error.ToString()};
  }
  HttpError http{.status = status, .message = error.what, .param = error.where};
  if (!error.remedy.empty()) http.message += ": " + error.remedy;
  if (error.code == Code::kNotFound) http.code = "model_not_found";
  if (error.code == Code::kResourceExhausted) http.code = "queue_full";
  if (error.code == Code::kTooLong) http.code = "context_length_exceeded";
  return http;
}

void SendFailure(Responder& responder, const Error& error) {
  HttpHeaders headers;
  if (error.code == Code::kResourceExhausted || error.code == Code::kCancelled) {
    headers.emplace_back("Retry-After", std::to_string(kRetryAfterSeconds));
  }
  SendError(responder, HttpErrorOf(error), std::move(headers));
}

EventStream::EventStream(std::shared_ptr<Responder> responder, std::string opening)
    : responder_(std::move(responder)), opening_("data: " + std::move(opening)) {}

void EventStream::Begin() {
  responder_->BeginStream(200, "text/event-stream", {{"Cache-Control", "no-cache"}});
  begun_ = true;
}

std::string& EventStream::Open() {
  event_ = opening_;
  return event_;
}

bool EventStream::Send() {
  event_ += "}\n\n";
  return responder_->Write(event_);
}

bool EventStream::SendNamed(std::string_view name, std::string_view json) {
  event_.assign("event: ").append(name).append("\ndata: ").append(json).append("\n\n");
  return responder_->Write(event_);
}

void EventStream::Done() {
  responder_->Write("data: [DONE]\n\n");
  End();
}

void EventStream::End() {
  responder_->End();
}

void EventStream::Fail(const Error& error) {
  if (!begun_) return SendFailure(*responder_, error);
  const HttpError http = HttpErrorOf(error);
  responder_->Note("reason", http.cause.empty() ? http.message : http.cause);
  responder_->Write("data: " + ErrorBody(http) + "\n\n");
  Done();
}

}  // namespace kv8::openai
