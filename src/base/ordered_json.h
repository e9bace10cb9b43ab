// JSON whose objects keep their keys in the order they were written: for text that shows it again.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

using OrderedJson = nlohmann::ordered_json;

/// ParseJson (base/json.h), keeping the order of keys. Looking a key up takes time in proportion to
/// the size of its object. Errors: those of ParseJson. Defined in json.cc, whose checks it shares.
Result<OrderedJson> ParseOrderedJson(std::string_view text, std::string_view where);

}  // namespace kv8
