// `value[key]` and `value[start:stop:step]`, as Python does it.
#pragma once

#include <optional>

#include "jinja/value.h"

namespace kv8::jinja {

/// A slice's bounds; None where one is left out.
struct SliceBounds {
  Value start;
  Value stop;
  Value step;
};
/// `value[start:stop:step]`; nullopt where Python has a TypeError. Errors: a step of zero.
Result<std::optional<Value>> Slice(const Value& value, const SliceBounds& bounds);

/// `value[key]` of a string, sequence or dict; nullopt where there is no such item.
std::optional<Value> ItemOf(const Value& value, const Value& key);

}  // namespace kv8::jinja
