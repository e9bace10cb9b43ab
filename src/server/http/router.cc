#include "server/http/router.h"

#include <algorithm>
#include <utility>

namespace kv8 {
namespace {

bool Covers(std::string_view pattern, std::string_view path) {
  return pattern.ends_with("/*") && path.size() >= pattern.size() &&
         path.starts_with(pattern.substr(0, pattern.size() - 1));
}

}  // namespace

void Router::Add(std::string_view method, std::string_view path, Handler handler,
                 RouteAccess access) {
  std::erase_if(routes_, [&](const Route& r) { return r.method == method && r.path == path; });
  routes_.push_back({std::string(method), std::string(path), std::move(handler), access});
}

Router::Match Router::Find(std::string_view method, std::string_view path) const {
  std::string_view pattern = path;
  const auto is_path = [&](const Route& r) { return r.path == path; };
  if (std::none_of(routes_.begin(), routes_.end(), is_path)) {
    // Of several patterns the longest is the closest.
    pattern = {};
    for (const Route& r : routes_) {
      if (Covers(r.path, path) && r.path.size() > pattern.size()) pattern = r.path;
    }
  }
  Match match;
  if (pattern.empty()) return match;
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& r : routes_) {
    if (r.path != pattern) continue;
    match.allowed += r.method + (r.method == "GET" ? ", HEAD, " : ", ");
    if (r.method == wanted) {
      match.handler = &r.handler;
      match.access = r.access;
    }
  }
  match.allowed += "OPTIONS";
  return match;
}

}  // namespace kv8
