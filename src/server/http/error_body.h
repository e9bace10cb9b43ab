// Errors in the shape that OpenAI's clients read.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "server/http/responder.h"

namespace kv8 {

/// What went wrong with a request. `type` empty: the usual one of the status. `param` and `code`
/// empty: null.
struct HttpError {
  int status = 500;
  std::string message;
  std::string type;
  std::string param;  // the field of the body
  std::string code;   // for programs: "invalid_api_key"
  std::string cause;  // for the log alone; empty: the message is
};

/// {"error": {"message", "type", "param", "code"}}; what is not UTF-8 becomes U+FFFD.
std::string ErrorBody(const HttpError& error);

/// Sends the body with its status; the log has the reason.
void SendError(Responder& responder, const HttpError& error, HttpHeaders headers = {});

/// 503: a request needs more memory than there is.
HttpError OutOfMemory();

/// What a library threw while a request was answered: 503 for lack of memory, else 500.
void SendException(Responder& responder, const std::exception& problem);

/// 429 with Retry-After: the line of waiting requests is full.
void SendOverloaded(Responder& responder, int retry_after_seconds);

}  // namespace kv8
