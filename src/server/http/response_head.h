// The bytes of an answer before its body, and around its pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_request.h"

namespace kv8 {

/// What the transport knows about an answer before it is given.
struct ResponseFrame {
  std::string request_id;
  std::string cors_origin;  // empty: none
  bool head_only = false;   // the answer to HEAD: no body
  bool http_1_0 = false;
  bool keep_alive = true;
};

/// Status line and headers. `length` absent: the body comes in chunks (HTTP/1.1) or ends with the
/// connection (HTTP/1.0). Control characters in `headers` become spaces.
std::string ResponseHead(const ResponseFrame& frame, int status, std::string_view content_type,
                         std::optional<std::size_t> length, const HttpHeaders& headers);

/// Appends one chunk; `piece` is not empty.
void AppendChunk(std::string& out, std::string_view piece);

inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace kv8
