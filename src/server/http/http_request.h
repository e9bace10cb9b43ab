// One HTTP request, read whole.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv8 {

/// Names as the client wrote them, in its order.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string id;      // the client's X-Request-Id if it is a plain word, else made here
  std::string method;  // "GET"; upper case by the protocol
  std::string path;    // without the query, as sent: percent signs are not decoded
  std::string query;   // after '?', without it
  HttpHeaders headers;
  std::string body;

  /// The value of the first header of that name (any case); empty when there is none.
  std::string_view Header(std::string_view name) const;
};

}  // namespace kv8
