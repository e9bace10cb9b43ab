#include "server/http/api_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>

#include "base/sha256.h"

namespace kv8 {
namespace {

constexpr std::string_view kScheme = "bearer ";

/// Schemes are compared without case.
bool HasScheme(std::string_view authorization) {
  return authorization.size() >= kScheme.size() &&
         std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                    [](char want, char have) { return want == (have | (want == ' ' ? 0 : 0x20)); });
}

bool IsVisible(char c) {
  return c > 0x20 && c < 0x7F;
}

}  // namespace

Result<ApiKeys> ApiKeys::Create(const std::vector<std::string>& keys) {
  ApiKeys made;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].empty() || !std::all_of(keys[i].begin(), keys[i].end(), IsVisible)) {
      return Error{.code = Code::kInvalidArgument,
                   .what = fmt::format("key {} of {} is empty or holds a blank or a character that "
                                       "is not ASCII",
                                       i + 1, keys.size()),
                   .where = "API keys",
                   .remedy = "use keys of visible ASCII characters, one a line"};
    }
    made.hashes_.push_back(Sha256Hex(keys[i]));
  }
  return made;
}

std::optional<std::size_t> ApiKeys::Find(std::string_view authorization) const {
  if (hashes_.empty()) return 0;
  if (!HasScheme(authorization)) return std::nullopt;
  const std::string hash = Sha256Hex(authorization.substr(kScheme.size()));
  std::optional<std::size_t> found;
  for (std::size_t i = hashes_.size(); i-- > 0;) {
    if (CRYPTO_memcmp(hashes_[i].data(), hash.data(), hash.size()) == 0) found = i;
  }
  return found;
}

}  // namespace kv8
