#include "server/http/error_body.h"

#include <new>
#include <utility>

#include "base/json.h"

namespace kv8 {
namespace {

constexpr std::string_view TypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

Json OrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

std::string ErrorBody(const HttpError& error) {
  const Json body = {
      {"error",
       {{"message", error.message},
        {"type", error.type.empty() ? std::string(TypeOf(error.status)) : error.type},
        {"param", OrNull(error.param)},
        {"code", OrNull(error.code)}}}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void SendError(Responder& responder, const HttpError& error, HttpHeaders headers) {
  responder.Note("reason", error.cause.empty() ? error.message : error.cause);
  responder.Send(error.status, "application/json", ErrorBody(error), std::move(headers));
}

HttpError OutOfMemory() {
  return {.status = 503,
          .message =
              "The server has not enough memory for this request: try again later, or send "
              "a smaller one.",
          .code = "out_of_memory"};
}

void SendException(Responder& responder, const std::exception& problem) {
  if (dynamic_cast<const std::bad_alloc*>(&problem) != nullptr) {
    return SendError(responder, OutOfMemory(), {{"Retry-After", "1"}});
  }
  SendError(responder, {.status = 500, .message = "The server failed to answer."});
}

void SendOverloaded(Responder& responder, int retry_after_seconds) {
  SendError(responder,
            {.status = 429,
             .message = "The server has as many waiting requests as it takes; try again later.",
             .code = "queue_full"},
            {{"Retry-After", std::to_string(retry_after_seconds)}});
}

}  // namespace kv8
