#include "server/operations.h"

#include <utility>

#include "base/json.h"
#include "server/http/error_body.h"
#include "server/metrics.h"

namespace kv8 {
namespace {

using Answer = const std::shared_ptr<Responder>&;

const HttpError kBrokenDown = {.status = 503,
                               .message =
                                   "The engine broke down for lack of memory: start the "
                                   "server again, with more."};

}  // namespace

void AddOperationsRoutes(HttpServer& server, const EngineService& service,
                         const std::string& model_name, const std::string& version) {
  Router& router = server.router();
  const auto health = [&service](const HttpRequest&, Answer answer) {
    if (service.failed()) return SendError(*answer, kBrokenDown);
    answer->Send(200, "application/json", R"({"status":"ok"})");
  };
  const auto ready = [&server, &service](const HttpRequest&, Answer answer) {
    if (service.failed()) return SendError(*answer, kBrokenDown);
    if (!server.shutting_down()) {
      answer->Send(200, "application/json", R"({"status":"ready"})");
    } else {
      SendError(*answer, {.status = 503, .message = "The server is shutting down."});
    }
  };
  const std::string about = Json{{"version", version}}.dump();
  const auto tell_version = [about](const HttpRequest&, Answer answer) {
    answer->Send(200, "application/json", about);
  };
  const auto metrics = [&server, &service, model_name](const HttpRequest&, Answer answer) {
    const std::shared_ptr<const EngineSnapshot> now = service.snapshot();
    answer->Send(200, kMetricsContentType,
                 MetricsText({.statistics = now->statistics,
                              .kv_cache = now->kv_cache,
                              .memory = service.memory(),
                              .http = server.statistics(),
                              .log_lines_lost = server.log().lost(),
                              .model_name = model_name}));
  };
  router.Add("GET", "/health", health, RouteAccess::kOpen);
  router.Add("GET", "/ready", ready, RouteAccess::kOpen);
  router.Add("GET", "/version", tell_version, RouteAccess::kOpen);
  router.Add("GET", "/metrics", metrics);
}

}  // namespace kv8
