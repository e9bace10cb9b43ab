#include "client/server_url.h"

#include <boost/url/src.hpp>  // Boost.URL without a library of its own

#include <cstdlib>
#include <utility>

namespace kv8 {

Result<ServerUrl> ParseServerUrl(std::string_view text) {
  const auto refuse = [&](std::string what) {
    return Error{Code::kInvalidArgument, std::move(what), std::string(text),
                 "write it as http://host:8000 or https://host/base"};
  };
  const auto parsed = boost::urls::parse_uri({text.data(), text.size()});
  if (parsed.has_error()) return refuse("is not a URL: " + parsed.error().message());
  const boost::urls::url_view url = *parsed;
  ServerUrl server;
  server.tls = url.scheme_id() == boost::urls::scheme::https;
  if (!server.tls && url.scheme_id() != boost::urls::scheme::http) {
    return refuse("has a scheme that is neither http nor https");
  }
  server.host = url.host_address();
  if (server.host.empty()) return refuse("names no host");
  if (url.has_userinfo() || url.has_query() || url.has_fragment()) {
    return refuse("has a user name, a query or a fragment, which no request would get");
  }
  // Boost 1.81 takes what follows the digits of a port for the path, and ports of any size.
  const boost::urls::string_view path = url.encoded_path();
  constexpr unsigned kLastPort = 65535;
  if ((!path.empty() && path.front() != '/') || url.port().size() > 5 ||
      std::strtoul(std::string(url.port()).c_str(), nullptr, 10) > kLastPort) {
    return refuse("has a port that is no number from 0 to 65535");
  }
  server.port =
      url.has_port() && !url.port().empty() ? std::string(url.port()) : (server.tls ? "443" : "80");
  server.authority = std::string(url.encoded_host_and_port());
  server.base_path = std::string(path);
  const auto drop_end = [&](std::string_view end) {
    if (server.base_path.ends_with(end))
      server.base_path.resize(server.base_path.size() - end.size());
  };
  drop_end("/");
  drop_end("/v1");
  server.text = (server.tls ? "https://" : "http://") + server.authority + server.base_path;
  return server;
}

}  // namespace kv8
