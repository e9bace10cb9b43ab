// One HTTP request, read whole.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/body_memory.h"

namespace kv8 {

/// Names as the client wrote them, in its order.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// ASCII letters are the same in both cases.
bool SameWithoutCase(std::string_view left, std::string_view right);

struct HttpRequest {
  std::string id;          // the client's X-Request-Id if it is a plain word, else made here
  std::string method;      // "GET"; upper case by the protocol
  std::string path;        // without the query, as sent: percent signs are not decoded
  std::string query;       // after '?', without it
  std::string authority;   // the server's name and port as the client knows them
  std::size_t client = 0;  // which API key came with it; 0 without keys
  HttpHeaders headers;
  std::string body;
  std::shared_ptr<BodyMemory::Share> body_share;  // what the body takes; goes with it

  /// The value of the first header of that name (any case); empty when there is none.
  std::string_view Header(std::string_view name) const;
};

}  // namespace kv8
