// Which function answers which method and path.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_request.h"
#include "server/http/responder.h"

namespace kv8 {

/// Runs on the I/O thread and must return soon: long work goes elsewhere, with the responder.
using Handler = std::function<void(HttpRequest request, std::shared_ptr<Responder> responder)>;

/// Whether a route asks for an API key, when the server has one.
enum class RouteAccess { kKey, kOpen };

class Router {
 public:
  /// `path` is matched whole; one that ends in "/*" matches whatever follows the slash, if the
  /// whole path has no route of its own. GET answers HEAD too. A second handler for the same method
  /// and path replaces the first.
  void Add(std::string_view method, std::string_view path, Handler handler,
           RouteAccess access = RouteAccess::kKey);

  struct Match {
    const Handler* handler = nullptr;  // null: no such path, or `allowed` says which methods it has
    RouteAccess access = RouteAccess::kKey;
    std::string allowed;  // "GET, HEAD, OPTIONS"; empty when the path is unknown
  };
  Match Find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::string path;
    Handler handler;
    RouteAccess access;
  };
  std::vector<Route> routes_;
};

}  // namespace kv8
