// Which names of the server a request may use, and which sites' web pages may call it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kv8/error.h"

namespace kv8 {

/// Guards a server without keys against web pages of other sites in a browser of the same machine.
/// A site can give its own name this server's address (DNS rebinding), so only names that no site
/// can have are taken: addresses, localhost, and those that whoever runs the server lists.
class HostNames {
 public:
  /// `further`: names without scheme and port; "*" stands for every name.
  /// Errors: kInvalidArgument for what is no such name.
  static Result<HostNames> Create(std::vector<std::string> further);

  /// Whether a request may be for `authority`: "name", "name:port", "[::1]:port".
  bool Allow(std::string_view authority) const;

 private:
  std::vector<std::string> further_;
};

/// Whether web pages of `origin`, the value of that header, may call a server that the request
/// names `authority`: its own pages, and those of `cors_origin` ("*": all).
bool AllowOrigin(std::string_view origin, std::string_view authority, std::string_view cors_origin);

}  // namespace kv8
