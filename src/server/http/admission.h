// What is refused from a request's head alone, before its body is read.
#pragma once

#include <optional>
#include <string>

#include "server/http/api_keys.h"
#include "server/http/error_body.h"
#include "server/http/host_names.h"
#include "server/http/http_request.h"
#include "server/http/router.h"

namespace kv8 {

/// Who may ask.
struct AdmissionRules {
  ApiKeys keys;
  HostNames hosts;
  bool check_hosts = true;  // and origins: a web page that has no key gets nowhere by itself
  std::string
      cors_origin;  // of web pages that may call the server; "*": all; empty: none but its own
};

struct Refusal {
  HttpError error;
  HttpHeaders headers;
};

/// Why the request must not be answered by its route; nullopt when it may. Sets request.client.
std::optional<Refusal> CheckAdmission(const AdmissionRules& rules, const Router::Match& route,
                                      bool has_body, HttpRequest& request);

}  // namespace kv8
