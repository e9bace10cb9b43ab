#include "server/http/host_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <utility>

#include "server/http/http_request.h"

namespace kv8 {
namespace {

/// The authority's host, without the brackets of an IPv6 address and a name's last dot.
std::string_view HostOf(std::string_view authority) {
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    return end == std::string_view::npos ? std::string_view() : authority.substr(1, end - 1);
  }
  std::string_view host = authority.substr(0, authority.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

bool IsAddress(std::string_view host) {
  boost::system::error_code problem;
  boost::asio::ip::make_address(std::string(host), problem);
  return !problem;
}

bool IsLoopbackName(std::string_view host) {
  constexpr std::string_view kName = "localhost";  // RFC 6761: with all names below it
  if (host.size() < kName.size()) return false;
  const std::size_t rest = host.size() - kName.size();
  return SameWithoutCase(host.substr(rest), kName) && (rest == 0 || host[rest - 1] == '.');
}

}  // namespace

Result<HostNames> HostNames::Create(std::vector<std::string> further) {
  for (const std::string& name : further) {
    if (!name.empty() && name.find_first_of("/:[] \t") == std::string::npos) continue;
    return Error{.code = Code::kInvalidArgument,
                 .what = fmt::format("\"{}\" is no host name", name),
                 .where = "--allowed-host",
                 .remedy = "give a name without scheme and port, or * for every name"};
  }
  HostNames made;
  made.further_ = std::move(further);
  return made;
}

bool HostNames::Allow(std::string_view authority) const {
  const std::string_view host = HostOf(authority);
  if (IsLoopbackName(host) || IsAddress(host)) return true;
  return std::any_of(further_.begin(), further_.end(), [host](const std::string& name) {
    return name == "*" || SameWithoutCase(name, host);
  });
}

bool AllowOrigin(std::string_view origin, std::string_view authority,
                 std::string_view cors_origin) {
  if (cors_origin == "*" || origin == cors_origin) return true;
  const std::size_t scheme = origin.find("://");
  // "null" has none: a web page from a file, or of a site that hides.
  return scheme != std::string_view::npos && SameWithoutCase(origin.substr(scheme + 3), authority);
}

}  // namespace kv8
