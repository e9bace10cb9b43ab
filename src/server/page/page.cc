#include "server/page/page.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>

#include "server/page/state_json.h"

namespace kv8 {
namespace {

/// What stands between the tags of the only element of that name.
std::string_view ContentOf(std::string_view page, std::string_view name) {
  const std::string open = fmt::format("<{}>", name);
  const std::size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find(fmt::format("</{}>", name), begin) - begin);
}

/// 'sha256-...' as policies write it.
std::string HashSource(std::string_view text) {
  std::array<unsigned char, 32> hash = {};
  EVP_Digest(text.data(), text.size(), hash.data(), nullptr, EVP_sha256(), nullptr);
  std::array<unsigned char, 45> base64 = {};  // four characters for three bytes, and a zero
  EVP_EncodeBlock(base64.data(), hash.data(), static_cast<int>(hash.size()));
  return fmt::format("'sha256-{}'", std::string_view(reinterpret_cast<const char*>(base64.data())));
}

}  // namespace

std::string PagePolicy(std::string_view page) {
  return fmt::format(
      "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
      "require-trusted-types-for 'script'; trusted-types 'none'",
      HashSource(ContentOf(page, "script")), HashSource(ContentOf(page, "style")));
}

void AddPageRoutes(Router& router, EngineService& service, const std::string& model_name,
                   const std::string& version) {
  const HttpHeaders headers = {{"Content-Security-Policy", PagePolicy(kPageText)},
                               {"X-Content-Type-Options", "nosniff"},
                               {"Referrer-Policy", "no-referrer"},
                               {"Cross-Origin-Opener-Policy", "same-origin"},
                               {"Cross-Origin-Resource-Policy", "same-origin"},
                               {"Cache-Control", "no-cache"}};
  const auto page = [headers](const HttpRequest&, const std::shared_ptr<Responder>& answer) {
    answer->Send(200, "text/html; charset=utf-8", std::string(kPageText), headers);
  };
  const auto state = [&service, model_name, version](const HttpRequest&,
                                                     const std::shared_ptr<Responder>& answer) {
    service.WatchPool();
    answer->Send(200, "application/json",
                 StateJson({.snapshot = *service.snapshot(),
                            .model = service.model(),
                            .model_name = model_name,
                            .version = version,
                            .now = std::chrono::steady_clock::now()}),
                 {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
  };
  router.Add("GET", "/", page, RouteAccess::kOpen);
  router.Add("GET", "/kv8/state", state);
}

}  // namespace kv8
