// Feeds bytes to the HTTP reader as a connection would: in pieces, request after request. However
// they are cut, the requests taken must be the same. When a refusal comes may depend on the cut:
// the parser sees some faults only once a line is complete.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/host_names.h"
#include "server/http/request_reader.h"

namespace {

using kv8::RequestReader;
using State = RequestReader::State;

// Room for every header that comes: which byte is one too many may depend on the cut.
constexpr kv8::ServerLimits kLimits{.header_bytes = 8192, .header_count = 8, .body_bytes = 256};

const kv8::HostNames kHosts = kv8::HostNames::Create({"a.example"}).value();

/// The requests that the reader took from `bytes`.
std::string Read(std::string_view bytes, std::size_t step) {
  std::string found;
  std::string waiting;
  RequestReader reader(kLimits);
  auto read = &reader;
  std::unique_ptr<RequestReader> next;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    waiting += bytes.substr(at, step);
    State before{};
    do {
      before = read->state();
      waiting.erase(0, read->Feed(waiting));
      if (read->state() == State::kFailed) return found;
      if (read->state() == State::kDone) {
        const kv8::HttpRequest& request = read->request();
        found += request.method + " " + request.path + "?" + request.query + "\n" + request.body;
        found += kHosts.Allow(request.authority) ? "own" : "other";
        found +=
            kv8::AllowOrigin(request.Header("Origin"), request.authority, "") ? "own" : "other";
        if (!read->keep_alive()) return found;
        next = std::make_unique<RequestReader>(kLimits);
        read = next.get();
        before = State::kDone;
      }
    } while (read->state() != before && !waiting.empty());
    if (waiting.size() > kLimits.header_bytes + step) std::abort();  // memory of a connection
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size > 0 && Read(bytes, size) != Read(bytes, 3)) std::abort();
  return 0;
}
