// JSON Schema twice more, written plainly: does a value satisfy a schema, and which values do?
#pragma once

#include <random>

#include "base/ordered_json.h"

namespace kv8::test {

/// Whether `value` satisfies `schema`, a part of `root`, by the standard's own rules. oneOf counts
/// as anyOf.
bool Satisfies(const OrderedJson& value, const OrderedJson& schema, const OrderedJson& root);

/// A random value that satisfies the schema, without properties that it does not declare. The
/// schema has no allOf, pattern or format.
OrderedJson RandomValue(const OrderedJson& schema, const OrderedJson& root, std::mt19937& random,
                        int depth = 0);

}  // namespace kv8::test
