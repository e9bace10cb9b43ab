// Where a server is.
#pragma once

#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

struct ServerUrl {
  bool tls = false;
  std::string host;       // name or address, IPv6 without brackets
  std::string port;       // decimal
  std::string authority;  // host and port as in the URL, for the Host header
  std::string base_path;  // before every path, without a slash at the end; mostly empty
  std::string text;       // scheme, authority and base path, for messages
};

/// Reads `http://host:port/base` or `https://...`; a `/v1` at the end, which OpenAI's clients ask
/// for and paths have themselves, is left out.
/// Errors: kInvalidArgument for another scheme, no host, a user name, a query or a fragment.
Result<ServerUrl> ParseServerUrl(std::string_view text);

}  // namespace kv8
