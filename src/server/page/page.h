// The status page at /: chat, and a live view of the engine. docs/guide/server-page.md describes
// both.
#pragma once

#include <string>
#include <string_view>

#include "server/engine_service.h"
#include "server/http/router.h"

namespace kv8 {

/// index.html as it was when the program was built.
extern const std::string_view kPageText;

/// The Content-Security-Policy under which `page` works, and nothing that was slipped into it: its
/// own <script> and <style> by their hashes, requests to its own origin, no markup made of text.
std::string PagePolicy(std::string_view page);

/// Adds / and /kv8/state. The page holds no secret and asks for no key, the state does. `service`
/// outlives the router's use.
void AddPageRoutes(Router& router, EngineService& service, const std::string& model_name,
                   const std::string& version);

}  // namespace kv8
