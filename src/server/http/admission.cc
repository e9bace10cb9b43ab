#include "server/http/admission.h"

#include <fmt/format.h>

#include <string_view>

namespace kv8 {
namespace {

std::optional<Refusal> CheckSite(const AdmissionRules& rules, const HttpRequest& request) {
  // Without a Host (HTTP/1.0) it is no browser.
  if (!request.authority.empty() && !rules.hosts.Allow(request.authority)) {
    return Refusal{
        .error = {.status = 403,
                  .message = fmt::format("This server does not answer to the name \"{}\": start "
                                         "it with --allowed-host, or with an API key.",
                                         request.authority),
                  .code = "host_not_allowed"},
        .headers = {}};
  }
  const std::string_view origin = request.Header("Origin");
  if (request.method != "OPTIONS" && !origin.empty() &&
      !AllowOrigin(origin, request.authority, rules.cors_origin)) {
    return Refusal{.error = {.status = 403,
                             .message = fmt::format(
                                 "Web pages of \"{}\" may not call this server: start it with "
                                 "--cors-origin, or with an API key.",
                                 origin),
                             .code = "origin_not_allowed"},
                   .headers = {}};
  }
  return std::nullopt;
}

std::optional<Refusal> CheckRoute(const Router::Match& route, const HttpRequest& request) {
  if (route.handler != nullptr) return std::nullopt;
  if (route.allowed.empty()) {
    return Refusal{
        .error = {.status = 404, .message = fmt::format("There is no {} here.", request.path)},
        .headers = {}};
  }
  return Refusal{.error = {.status = 405,
                           .message = fmt::format("{} takes {}, not {}.", request.path,
                                                  route.allowed, request.method)},
                 .headers = {{"Allow", route.allowed}}};
}

/// A web page of another site can send a form or plain text without asking, but not JSON.
std::optional<Refusal> CheckContent(const HttpRequest& request) {
  const std::string_view coding = request.Header("Content-Encoding");
  if (!coding.empty() && !SameWithoutCase(coding, "identity")) {
    return Refusal{.error = {.status = 415,
                             .message = fmt::format(
                                 "The body is encoded as \"{}\": send it as it is.", coding),
                             .code = "unsupported_content_encoding"},
                   .headers = {{"Accept-Encoding", "identity"}}};
  }
  std::string_view type = request.Header("Content-Type");
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  if (SameWithoutCase(type, "application/json")) return std::nullopt;
  return Refusal{
      .error = {.status = 415,
                .message = "The body must be JSON: send it as Content-Type: application/json.",
                .code = "unsupported_content_type"},
      .headers = {{"Accept", "application/json"}}};
}

}  // namespace

std::optional<Refusal> CheckAdmission(const AdmissionRules& rules, const Router::Match& route,
                                      bool has_body, HttpRequest& request) {
  if (rules.check_hosts) {
    if (auto refusal = CheckSite(rules, request)) return refusal;
  }
  if (request.method == "OPTIONS") return std::nullopt;  // browsers send these without a key
  const std::optional<std::size_t> client = rules.keys.Find(request.Header("Authorization"));
  if (!client && route.access == RouteAccess::kKey) {
    return Refusal{
        .error = {.status = 401,
                  .message = "This server asks for an API key, as Authorization: Bearer <key>.",
                  .code = "invalid_api_key"},
        .headers = {{"WWW-Authenticate", "Bearer"}}};
  }
  request.client = client.value_or(0);
  if (auto refusal = CheckRoute(route, request)) return refusal;
  return has_body ? CheckContent(request) : std::nullopt;
}

}  // namespace kv8
