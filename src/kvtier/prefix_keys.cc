#include "kvtier/prefix_keys.h"

#include <fmt/format.h>

#include "base/sha256.h"

namespace kv8 {
namespace {

std::string Next(const std::string& before, std::span<const TokenId> tokens) {
  Sha256 hash;
  hash.Update(before);
  hash.Update(std::as_bytes(tokens));
  return hash.FinishHex();
}

}  // namespace

PrefixKeys KeysOf(std::string_view binding, std::uint64_t group, std::span<const TokenId> tokens,
                  std::int64_t pages, bool with_draft) {
  PrefixKeys keys{.root = Sha256Hex(fmt::format("{} group {}", binding, group))};
  constexpr auto kTokens = static_cast<std::size_t>(kPageTokens);
  for (std::size_t i = 0; i < static_cast<std::size_t>(pages); ++i) {
    const std::string& before = i == 0 ? keys.root : keys.exact.back();
    keys.ends.push_back(Next(before, tokens.subspan(i * kTokens, kTokens)));
    keys.exact.push_back(with_draft ? Next(keys.ends.back(), tokens.subspan((i + 1) * kTokens, 1))
                                    : keys.ends.back());
  }
  return keys;
}

}  // namespace kv8
