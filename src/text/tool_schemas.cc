#include "text/tool_schemas.h"

#include <algorithm>
#include <array>

namespace kv8 {
namespace {

/// Most references and combinations inside one another that are followed.
constexpr int kMaxDepth = 8;

constexpr std::string_view kJsonSpace = " \t\r\n";

const OrderedJson* Member(const OrderedJson& json, std::string_view key) {
  if (!json.is_object()) return nullptr;
  const auto it = json.find(key);
  return it == json.end() ? nullptr : &*it;
}

JsonTypes TypeNamed(const OrderedJson& name) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "string", "integer", "number", "boolean", "object", "array", "null"};
  if (!name.is_string()) return {};
  const auto it = std::find(kNames.begin(), kNames.end(), name.get_ref<const std::string&>());
  if (it == kNames.end()) return {};
  return JsonTypes(static_cast<JsonType>(1u << (it - kNames.begin())));
}

JsonTypes TypeOfValue(const OrderedJson& value) {
  if (value.is_string()) return JsonTypes(JsonType::kString);
  if (value.is_boolean()) return JsonTypes(JsonType::kBoolean);
  if (value.is_number_integer()) return JsonTypes(JsonType::kInteger);
  if (value.is_number()) return JsonTypes(JsonType::kNumber);
  if (value.is_object()) return JsonTypes(JsonType::kObject);
  if (value.is_array()) return JsonTypes(JsonType::kArray);
  return JsonTypes(JsonType::kNull);
}

/// What "#/$defs/Name" refers to in `root`; null for anything else.
const OrderedJson* Resolve(const OrderedJson& reference, const OrderedJson& root) {
  if (!reference.is_string()) return nullptr;
  std::string_view rest = reference.get_ref<const std::string&>();
  if (!rest.starts_with('#')) return nullptr;
  rest.remove_prefix(1);
  const OrderedJson* at = &root;
  while (at != nullptr && rest.starts_with('/')) {
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    at = Member(*at, rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return rest.empty() ? at : nullptr;
}

JsonTypes TypesOfSchema(const OrderedJson& schema, const OrderedJson& root, int depth);

/// Types of all the schemas in an array.
JsonTypes TypesOfAll(const OrderedJson* schemas, const OrderedJson& root, int depth) {
  JsonTypes types;
  if (schemas == nullptr || !schemas->is_array()) return types;
  for (const OrderedJson& schema : *schemas) types.Add(TypesOfSchema(schema, root, depth + 1));
  return types;
}

/// Types that follow from something else than the schema's "type".
JsonTypes ImpliedTypes(const OrderedJson& schema, const OrderedJson& root, int depth) {
  JsonTypes types;
  for (const std::string_view key : {"anyOf", "oneOf", "allOf"}) {
    types.Add(TypesOfAll(Member(schema, key), root, depth));
  }
  if (const auto* reference = Member(schema, "$ref")) {
    const auto* target = Resolve(*reference, root);
    if (target != nullptr) types.Add(TypesOfSchema(*target, root, depth + 1));
  }
  if (const auto* values = Member(schema, "enum"); values != nullptr && values->is_array()) {
    for (const OrderedJson& value : *values) types.Add(TypeOfValue(value));
  }
  if (const auto* value = Member(schema, "const")) types.Add(TypeOfValue(*value));
  if (Member(schema, "properties") != nullptr) types.Add(JsonTypes(JsonType::kObject));
  if (Member(schema, "items") != nullptr) types.Add(JsonTypes(JsonType::kArray));
  return types;
}

JsonTypes TypesOfSchema(const OrderedJson& schema, const OrderedJson& root, int depth) {
  if (depth > kMaxDepth) return {};
  JsonTypes types;
  if (const auto* type = Member(schema, "type")) {
    if (!type->is_array()) types.Add(TypeNamed(*type));
    if (type->is_array()) {
      for (const OrderedJson& name : *type) types.Add(TypeNamed(name));
    }
  }
  if (types.empty()) types = ImpliedTypes(schema, root, depth);
  const auto* nullable = Member(schema, "nullable");
  if (nullable != nullptr && *nullable == true && !types.empty()) {
    types.Add(JsonTypes(JsonType::kNull));
  }
  return types;
}

std::size_t Digits(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
}

/// Bytes of the whole part of a JSON number, sign included; 0 when there is none.
std::size_t WholePart(std::string_view text) {
  const std::size_t sign = text.starts_with('-');
  const std::size_t digits = Digits(text, sign);
  if (digits == 0 || (digits > 1 && text[sign] == '0')) return 0;
  return sign + digits;
}

bool IsJsonNumber(std::string_view text) {
  std::size_t at = WholePart(text);
  if (at == 0) return false;
  if (text.substr(at).starts_with('.')) {
    const std::size_t fraction = Digits(text, at + 1);
    if (fraction == 0) return false;
    at += 1 + fraction;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const std::size_t exponent = Digits(text, at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == text.size();
}

/// An integer, also as "5.0"; nullopt for anything else.
std::optional<std::string> IntegerText(std::string_view text) {
  const std::size_t whole = WholePart(text);
  if (whole == 0) return std::nullopt;
  const std::string_view fraction = text.substr(whole);
  const bool zero = fraction.size() > 1 && fraction[0] == '.' &&
                    fraction.find_first_not_of('0', 1) == fraction.npos;
  if (!fraction.empty() && !zero) return std::nullopt;
  return std::string(text.substr(0, whole));
}

}  // namespace

std::optional<std::string> JsonOfTypes(std::string_view text, JsonTypes types) {
  const std::size_t first = text.find_first_not_of(kJsonSpace);
  if (first == text.npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(kJsonSpace) - first + 1);
  if (types.Has(JsonType::kNull) && (text == "null" || text == "None")) return "null";
  if (types.Has(JsonType::kBoolean) && (text == "true" || text == "True")) return "true";
  if (types.Has(JsonType::kBoolean) && (text == "false" || text == "False")) return "false";
  if (types.Has(JsonType::kInteger)) {
    if (auto integer = IntegerText(text)) return integer;
  }
  if (types.Has(JsonType::kNumber) && IsJsonNumber(text)) return std::string(text);
  const bool is_object = types.Has(JsonType::kObject) && text.starts_with('{');
  const bool is_array = types.Has(JsonType::kArray) && text.starts_with('[');
  if ((is_object || is_array) && ParseOrderedJson(text, "argument").ok()) return std::string(text);
  return std::nullopt;
}

const OrderedJson* ToolSchemas::Find(std::string_view name) const {
  if (!tools_.is_array()) return nullptr;
  for (const OrderedJson& tool : tools_) {
    const auto* function = Member(tool, "function");
    const auto* found = function == nullptr ? nullptr : Member(*function, "name");
    if (found != nullptr && found->is_string() && found->get_ref<const std::string&>() == name) {
      return function;
    }
  }
  return nullptr;
}

JsonTypes ToolSchemas::TypesOf(std::string_view function, std::string_view argument) const {
  const auto* found = Find(function);
  const auto* parameters = found == nullptr ? nullptr : Member(*found, "parameters");
  if (parameters == nullptr) return {};
  const auto* properties = Member(*parameters, "properties");
  const auto* schema = properties == nullptr ? nullptr : Member(*properties, argument);
  if (schema == nullptr) schema = Member(*parameters, "additionalProperties");
  return schema == nullptr ? JsonTypes() : TypesOfSchema(*schema, *parameters, 0);
}

}  // namespace kv8
