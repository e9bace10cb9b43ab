// JSON schemas that hold together, as one: `$ref` and `allOf` resolved.
#pragma once

#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "kv8/error.h"

namespace kv8 {

/// Schemas as they are worked on: `true`, `false`, or an object without annotations.
class SchemaMerger {
 public:
  /// `root` is what `#` refers to and must outlive the merger.
  explicit SchemaMerger(const OrderedJson& root) : root_(&root) {}

  /// `schema` without `$ref` and `allOf`: one that allows the same values. Keywords that kv8 does
  /// not know, or knows and cannot honour, are refused.
  /// Errors, naming the place: kUnsupported; kCorrupt for what is no schema or refers to nothing;
  /// kInvalidArgument for a reference that only leads back to itself; kResourceExhausted when
  /// merging does not come to an end within reason.
  Result<OrderedJson> Flatten(const OrderedJson& schema, const std::string& path);

  /// A flat schema of what both allow. Errors: as Flatten.
  Result<OrderedJson> Merge(OrderedJson a, const OrderedJson& b, const std::string& path);

 private:
  Result<void> Charge(const OrderedJson& schema, const std::string& path);
  Result<OrderedJson> FlattenAt(const OrderedJson& schema, const std::string& path, int depth);
  Result<const OrderedJson*> Resolve(const OrderedJson& ref, const std::string& path) const;
  Result<OrderedJson> Own(const OrderedJson& schema, const std::string& path) const;

  const OrderedJson* root_;
  std::size_t work_ = 0;
};

/// Whether a schema lists its values, with `enum` or `const`.
bool NamesValues(const OrderedJson& schema);
/// Those values.
OrderedJson SchemaValues(const OrderedJson& schema);

/// `#/a/b`, then `name` as one more step.
std::string Below(const std::string& path, std::string_view name);

/// kUnsupported: `path`: `what`.
Error CannotHonour(const std::string& path, std::string what);

/// kCorrupt: `path`: `what`.
Error BadSchema(const std::string& path, std::string what);

}  // namespace kv8
