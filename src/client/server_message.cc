#include "client/server_message.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/utf8.h"

namespace kv8 {
namespace {

constexpr std::size_t kMaxMessage = 300;

std::string OneLine(std::string_view text) {
  std::string line;
  LossyUtf8 lossy;
  lossy.Push(text.substr(0, kMaxMessage), line);
  if (text.size() <= kMaxMessage) lossy.Finish(line);  // else a character may be cut
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return text.size() > kMaxMessage ? line + "..." : line;
}

const std::string* MessageIn(const Json& json) {
  if (json.is_string()) return json.get_ptr<const std::string*>();
  if (!json.is_object()) return nullptr;
  for (const char* key : {"error", "message", "detail"}) {
    if (const auto found = json.find(key); found != json.end()) {
      if (const std::string* text = MessageIn(*found)) return text;
    }
  }
  return nullptr;
}

Code CodeOf(int status) {
  constexpr int kNotFound = 404;
  constexpr int kTooMany = 429;
  if (status == kNotFound) return Code::kNotFound;
  return status / 100 == 4 && status != kTooMany ? Code::kInvalidArgument : Code::kIo;
}

}  // namespace

std::string ServerMessage(const std::string& body) {
  if (const auto json = ParseJson(body, ""); json.ok()) {
    if (const std::string* message = MessageIn(*json)) return OneLine(*message);
  }
  return OneLine(body);
}

Error StatusError(int status, const std::string& body) {
  const std::string message = ServerMessage(body);
  return {CodeOf(status),
          message.empty() ? fmt::format("the server answered {} and no more", status)
                          : fmt::format("the server answered {}: {}", status, message),
          "", status / 100 == 3 ? "give the URL that it is redirected to" : ""};
}

}  // namespace kv8
