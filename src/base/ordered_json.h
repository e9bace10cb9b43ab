// JSON whose objects keep their keys in the order they were written: for text that shows it again.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

using OrderedJson = nlohmann::ordered_json;

/// ParseJson (base/json.h), keeping the order of keys. Looking a key up takes time in proportion to
/// the size of its object. Errors: those of ParseJson. Defined in json.cc, whose checks it shares.
/// An integer beyond 64 bits becomes a binary value, which JSON text cannot have, with its digits.
Result<OrderedJson> ParseOrderedJson(std::string_view text, std::string_view where);

/// Of a key that comes again in an object its last value, in the place of the first, as most
/// readers do: for what a model wrote. Errors: otherwise those of ParseOrderedJson.
Result<OrderedJson> ParseWithLastOfKeys(std::string_view text, std::string_view where);

/// The digits of an integer beyond 64 bits; nullopt for any other value.
std::optional<std::string_view> LargeInteger(const OrderedJson& value);

/// JSON on one line. Unlike dump(), it writes large integers; invalid UTF-8 becomes U+FFFD.
std::string OrderedText(const OrderedJson& value);

}  // namespace kv8
