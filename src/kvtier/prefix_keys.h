// Names for beginnings of prompts that hold outside of a process: a chain of hashes over pages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/types.h"

namespace kv8 {

/// Keys of all beginnings of one prompt that are whole pages; each is 64 hex digits of SHA-256.
struct PrefixKeys {
  std::string root;                // of the empty beginning
  std::vector<std::string> ends;   // [i]: of the first i + 1 pages, whatever follows
  std::vector<std::string> exact;  // [i]: with the token after them, where pages depend on it

  /// Exact key of the first `pages` pages.
  const std::string& Exact(std::int64_t pages) const {
    return pages == 0 ? root : exact[static_cast<std::size_t>(pages - 1)];
  }
  const std::string& End(std::int64_t pages) const {
    return ends[static_cast<std::size_t>(pages - 1)];
  }
};

/// Keys of the first `pages` pages of `tokens`. `binding` names all that the stored bytes depend on
/// beside the tokens; `group` is that of PrefixTree. With `with_draft` there must be a token after
/// the pages.
PrefixKeys KeysOf(std::string_view binding, std::uint64_t group, std::span<const TokenId> tokens,
                  std::int64_t pages, bool with_draft);

}  // namespace kv8
