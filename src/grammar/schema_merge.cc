#include "grammar/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/json.h"
#include "grammar/multiples.h"

namespace kv8 {
namespace {

constexpr int kMaxDepth = 64;                // of references and allOf inside one another
constexpr std::size_t kMaxWork = 1'000'000;  // values copied

// What says nothing about a value, or is only looked up by `$ref`.
constexpr auto kAnnotations = std::to_array<std::string_view>(
    {"title", "description", "default", "examples", "example", "$comment", "$schema", "$id",
     "deprecated", "readOnly", "writeOnly", "$defs", "definitions", "discriminator"});

constexpr auto kKeywords = std::to_array<std::string_view>({"$ref",
                                                            "allOf",
                                                            "anyOf",
                                                            "oneOf",
                                                            "type",
                                                            "enum",
                                                            "const",
                                                            "properties",
                                                            "required",
                                                            "additionalProperties",
                                                            "items",
                                                            "prefixItems",
                                                            "minItems",
                                                            "maxItems",
                                                            "minLength",
                                                            "maxLength",
                                                            "pattern",
                                                            "format",
                                                            "contentMediaType",
                                                            "contentSchema",
                                                            "minimum",
                                                            "maximum",
                                                            "exclusiveMinimum",
                                                            "exclusiveMaximum",
                                                            "multipleOf"});

template <class Items, class Item>
bool Among(const Items& items, const Item& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

/// A keyword that says nothing with this value, though others of its values cannot be honoured.
bool IsVacuous(const std::string& key, const OrderedJson& value) {
  if (key == "uniqueItems" || key == "nullable") return value == false;
  if (key == "minProperties") return value == 0;
  if (key == "unevaluatedProperties" || key == "unevaluatedItems") return value == true;
  return false;
}

/// What both schemas allow, left to be merged when its turn comes.
OrderedJson Both(const OrderedJson& a, const OrderedJson& b) {
  if (a == b || b == true) return a;
  if (a == true) return b;
  if (a == false || b == false) return false;
  return {{"allOf", OrderedJson::array({a, b})}};
}

std::size_t ValuesIn(const OrderedJson& json) {
  std::size_t count = 1;
  if (json.is_structured()) {
    for (const OrderedJson& item : json) count += ValuesIn(item);
  }
  return count;
}

OrderedJson AsList(const OrderedJson& type) {
  return type.is_array() ? type : OrderedJson::array({type});
}

/// Types in both; an integer is a number.
OrderedJson CommonTypes(const OrderedJson& a, const OrderedJson& b) {
  OrderedJson common = OrderedJson::array();
  for (const OrderedJson& x : AsList(a)) {
    for (const OrderedJson& y : AsList(b)) {
      if (x == y || (x == "integer" && y == "number")) common.push_back(x);
      if (x == "number" && y == "integer") common.push_back(y);
    }
  }
  return common;
}

/// Properties of a; those that b does not name fall under what b says about additional ones.
void AddProperties(const OrderedJson& a, const OrderedJson& b, OrderedJson& merged) {
  const OrderedJson other = b.value("properties", OrderedJson::object());
  const OrderedJson additional = b.value("additionalProperties", OrderedJson(true));
  const OrderedJson own = a.value("properties", OrderedJson::object());
  for (const auto& [name, schema] : own.items()) {
    if (merged.contains(name)) continue;
    merged[name] = Both(schema, other.contains(name) ? other[name] : additional);
  }
}

OrderedJson Union(const OrderedJson& a, const OrderedJson& b) {
  OrderedJson all = a;
  for (const OrderedJson& item : b) {
    if (!Among(all, item)) all.push_back(item);
  }
  return all;
}

/// Merges keyword `key` of `b` into `a`, which has it too. False when kv8 cannot say what both
/// allow.
bool MergeKeyword(const std::string& key, const OrderedJson& value, OrderedJson& a) {
  OrderedJson& own = a[key];
  if (own == value) return true;
  if (key == "type") {
    own = CommonTypes(own, value);
  } else if (key == "required") {
    own = Union(own, value);
  } else if (key == "items" || key == "additionalProperties" || key == "contentSchema") {
    own = Both(own, value);
  } else if (key == "multipleOf") {
    if (!own.is_number() || !value.is_number()) return false;
    const auto a_step = DecimalStep::Of(own);
    const auto b_step = DecimalStep::Of(value);
    const auto both = a_step && b_step ? DecimalStep::OfBoth(*a_step, *b_step) : std::nullopt;
    if (!both) return false;
    own = both->ToJson();
  } else if (key.starts_with("min") || key == "exclusiveMinimum") {
    if (own < value) own = value;
  } else if (key.starts_with("max") || key == "exclusiveMaximum") {
    if (value < own) own = value;
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool NamesValues(const OrderedJson& schema) {
  return schema.contains("enum") || schema.contains("const");
}

OrderedJson SchemaValues(const OrderedJson& schema) {
  const OrderedJson all = schema.value("enum", OrderedJson::array());
  if (!schema.contains("const")) return all;
  const bool allowed = !schema.contains("enum") || Among(all, schema["const"]);
  return allowed ? OrderedJson::array({schema["const"]}) : OrderedJson::array();
}

std::string Below(const std::string& path, std::string_view name) {
  std::string step;
  for (const char c : name) step += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return path + "/" + step;
}

Error CannotHonour(const std::string& path, std::string what) {
  return Error{Code::kUnsupported, std::move(what), "JSON schema " + path,
               "leave it out, or check it after generation"};
}

Error BadSchema(const std::string& path, std::string what) {
  return Error{Code::kCorrupt, std::move(what), "JSON schema " + path, "mend the schema"};
}

/// Counts what is copied: a few references can ask for any amount of it.
Result<void> SchemaMerger::Charge(const OrderedJson& schema, const std::string& path) {
  work_ += ValuesIn(schema);
  if (work_ <= kMaxWork) return {};
  return Error{Code::kResourceExhausted,
               fmt::format("resolving it copies more than {} values", kMaxWork),
               "JSON schema " + path, "use fewer references and allOf"};
}

/// The schema's own keywords.
Result<OrderedJson> SchemaMerger::Own(const OrderedJson& schema, const std::string& path) const {
  if (schema.is_boolean()) return schema;
  if (!schema.is_object()) return BadSchema(path, "is neither an object nor true or false");
  OrderedJson own = OrderedJson::object();
  for (const auto& [key, value] : schema.items()) {
    if (Among(kAnnotations, key) || key.starts_with("x-") || IsVacuous(key, value)) continue;
    if (!Among(kKeywords, key)) {
      return CannotHonour(path, fmt::format("\"{}\" is not supported", key));
    }
    own[key] = value;
  }
  return own;
}

Result<const OrderedJson*> SchemaMerger::Resolve(const OrderedJson& ref,
                                                 const std::string& path) const {
  if (!ref.is_string()) return BadSchema(Below(path, "$ref"), "is not a string");
  const auto& text = ref.get_ref<const std::string&>();
  const auto missing = [&] {
    return BadSchema(Below(path, "$ref"), fmt::format("\"{}\" refers to nothing", text));
  };
  if (text != "#" && !text.starts_with("#/")) {
    return CannotHonour(Below(path, "$ref"),
                        fmt::format("\"{}\" is not a reference into this schema, #/...", text));
  }
  const OrderedJson* place = root_;
  for (std::size_t at = 1; at < text.size();) {
    const std::size_t end = std::min(text.find('/', at + 1), text.size());
    std::string step;
    for (std::size_t i = at + 1; i < end; ++i) {
      const bool escaped = text[i] == '~' && i + 1 < end;
      step += !escaped ? text[i] : text[++i] == '1' ? '/' : '~';
    }
    if (place->is_object()) {
      const auto found = place->find(step);
      if (found == place->end()) return missing();
      place = &*found;
    } else {
      std::size_t index = 0;
      const auto [stop, problem] = std::from_chars(step.data(), step.data() + step.size(), index);
      const bool number = problem == std::errc() && stop == step.data() + step.size();
      if (!place->is_array() || !number || index >= place->size()) return missing();
      place = &(*place)[index];
    }
    at = end;
  }
  return place;
}

Result<OrderedJson> SchemaMerger::Flatten(const OrderedJson& schema, const std::string& path) {
  return FlattenAt(schema, path, 0);
}

Result<OrderedJson> SchemaMerger::FlattenAt(const OrderedJson& schema, const std::string& path,
                                            int depth) {
  if (depth > kMaxDepth) {
    return Error{Code::kInvalidArgument,
                 fmt::format("more than {} references in a row, or one to itself", kMaxDepth),
                 "JSON schema " + path, "put an object or an array in between"};
  }
  KV8_RETURN_IF_ERROR(Charge(schema, path));
  KV8_ASSIGN_OR_RETURN(OrderedJson flat, Own(schema, path));
  if (flat.is_boolean()) return flat;
  if (flat.contains("$ref")) {
    KV8_ASSIGN_OR_RETURN(const OrderedJson* target, Resolve(flat["$ref"], path));
    flat.erase("$ref");
    KV8_ASSIGN_OR_RETURN(const OrderedJson rest, FlattenAt(flat, path, depth + 1));
    KV8_ASSIGN_OR_RETURN(OrderedJson referred, FlattenAt(*target, path, depth + 1));
    return Merge(std::move(referred), rest, path);
  }
  if (!flat.contains("allOf")) return flat;
  const OrderedJson all = flat["allOf"];
  if (!all.is_array() || all.empty()) return BadSchema(Below(path, "allOf"), "is not a list");
  flat.erase("allOf");
  for (const OrderedJson& part : all) {
    const std::string place = Below(path, "allOf");
    KV8_ASSIGN_OR_RETURN(const OrderedJson other, FlattenAt(part, place, depth + 1));
    KV8_ASSIGN_OR_RETURN(flat, Merge(std::move(flat), other, place));
  }
  return flat;
}

Result<OrderedJson> SchemaMerger::Merge(OrderedJson a, const OrderedJson& b,
                                        const std::string& path) {
  if (b == true || a == false) return a;
  if (a == true || b == false) return b;
  if (a.empty()) return b;
  if (b.empty() || a == b) return a;
  KV8_RETURN_IF_ERROR(Charge(a, path));
  KV8_RETURN_IF_ERROR(Charge(b, path));
  const bool has_items = a.contains("items") || b.contains("items");
  if (a.contains("prefixItems") != b.contains("prefixItems") && has_items) {
    return CannotHonour(path, "\"prefixItems\" beside \"items\" of another part of allOf");
  }
  OrderedJson properties = OrderedJson::object();
  AddProperties(a, b, properties);
  AddProperties(b, a, properties);
  if (!properties.empty()) a["properties"] = properties;
  for (const auto& [key, value] : b.items()) {
    if (key == "properties" || key == "enum" || key == "const") continue;
    if (!a.contains(key)) {
      a[key] = value;
    } else if (!MergeKeyword(key, value, a)) {
      return CannotHonour(path, fmt::format("two different \"{}\" that must both hold", key));
    }
  }
  if (!NamesValues(b)) return a;
  OrderedJson values = SchemaValues(b);
  if (NamesValues(a)) {
    OrderedJson common = OrderedJson::array();
    const OrderedJson others = SchemaValues(a);
    for (const OrderedJson& value : values) {
      if (Among(others, value)) common.push_back(value);
    }
    values = std::move(common);
  }
  a.erase("const");
  a["enum"] = std::move(values);
  return a;
}

}  // namespace kv8
