// The endpoints for whoever keeps the server running: /health, /ready, /version and /metrics.
#pragma once

#include <string>

#include "server/engine_service.h"
#include "server/http/server.h"

namespace kv8 {

/// Adds them to the server's router; `service` outlives the server. /metrics asks for a key like
/// the rest, the others do not.
void AddOperationsRoutes(HttpServer& server, const EngineService& service,
                         const std::string& model_name, const std::string& version);

}  // namespace kv8
