// Which part of the model a tensor belongs to, for tables of sizes.
#pragma once

#include <string_view>

namespace kv8 {

/// "routed experts", "n-gram table", "draft head" and so on, by the canonical name.
std::string_view OwnerOf(std::string_view canonical_name);

}  // namespace kv8
