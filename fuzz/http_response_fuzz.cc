// Feeds bytes to the client's readers as a connection would: in pieces. However they are cut, the
// answer that is taken, and the events in it, must be the same. When a refusal comes may depend on
// the cut: the parser sees some faults only once a line is complete.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "client/event_reader.h"
#include "client/response_reader.h"
#include "client/server_message.h"

namespace {

constexpr std::size_t kBodyLimit = 512;

std::string Read(std::string_view bytes, std::size_t step) {
  kv8::ResponseReader response(kBodyLimit);
  kv8::EventReader events;
  std::string waiting;
  std::string body;
  std::string found;
  for (std::size_t at = 0; at < bytes.size() && !response.done(); at += step) {
    waiting += bytes.substr(at, step);
    if (!response.Feed(waiting).ok()) return {};
    const std::string piece = response.TakeBody();
    body += piece;
    for (const kv8::ServerSentEvent& event : events.Feed(piece)) {
      found += event.name + "=" + event.data + ";";
    }
    if (body.size() > kBodyLimit || waiting.size() > kv8::kResponseHeadBytes + step) std::abort();
  }
  if (!response.done() && !response.FeedEnd().ok()) return {};
  found += response.content_type() + kv8::StatusError(response.status(), body).what;
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size > 0 && Read(bytes, size) != Read(bytes, 3)) std::abort();
  return 0;
}
