#include "text/tool_schemas.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace kv8 {
namespace {

/// Schemas that are looked at for one argument: combinations of references can ask for any number.
constexpr int kMaxSchemas = 10'000;
constexpr int kMaxDepth = 64;  // of references and combinations inside one another

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
  if (value.is_number_integer() || LargeInteger(value)) return JsonTypes(JsonType::kInteger);
  if (value.is_number()) return JsonTypes(JsonType::kNumber);
  if (value.is_object()) return JsonTypes(JsonType::kObject);
  if (value.is_array()) return JsonTypes(JsonType::kArray);
  return JsonTypes(JsonType::kNull);
}

/// One step of a reference, "~1" and "~0" resolved.
std::string Unescaped(std::string_view step) {
  std::string name;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const bool escaped = step[i] == '~' && i + 1 < step.size();
    name += !escaped ? step[i] : step[++i] == '1' ? '/' : '~';
  }
  return name;
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
    const std::string step = Unescaped(rest.substr(0, end));
    if (at->is_array()) {
      std::size_t index = 0;
      const auto [stop, problem] = std::from_chars(step.data(), step.data() + step.size(), index);
      const bool is_index = problem == std::errc() && stop == step.data() + step.size();
      at = is_index && index < at->size() ? &(*at)[index] : nullptr;
    } else {
      at = Member(*at, step);
    }
    rest.remove_prefix(end);
  }
  return rest.empty() ? at : nullptr;
}

/// Keywords that are about values of one type.
struct TypedKeyword {
  std::string_view keyword;
  JsonType type;
};
constexpr auto kTypedKeywords = std::to_array<TypedKeyword>({
    {"properties", JsonType::kObject},
    {"required", JsonType::kObject},
    {"additionalProperties", JsonType::kObject},
    {"items", JsonType::kArray},
    {"prefixItems", JsonType::kArray},
    {"minItems", JsonType::kArray},
    {"maxItems", JsonType::kArray},
    {"uniqueItems", JsonType::kArray},
    {"minLength", JsonType::kString},
    {"maxLength", JsonType::kString},
    {"pattern", JsonType::kString},
    {"format", JsonType::kString},
    {"contentMediaType", JsonType::kString},
    {"contentSchema", JsonType::kString},
    {"minimum", JsonType::kNumber},
    {"maximum", JsonType::kNumber},
    {"exclusiveMinimum", JsonType::kNumber},
    {"exclusiveMaximum", JsonType::kNumber},
    {"multipleOf", JsonType::kNumber},
});

/// Types that a schema's own keywords allow, references and combinations left aside.
JsonTypes OwnTypes(const OrderedJson& schema) {
  JsonTypes types = JsonTypes::Unknown();
  if (const auto* type = Member(schema, "type")) {
    JsonTypes named = type->is_array() ? JsonTypes() : TypeNamed(*type);
    if (type->is_array()) {
      for (const OrderedJson& name : *type) named.Add(TypeNamed(name));
    }
    if (!named.empty()) types.Keep(named);
  }
  if (const auto* values = Member(schema, "enum"); values != nullptr && values->is_array()) {
    JsonTypes listed;
    for (const OrderedJson& value : *values) listed.Add(TypeOfValue(value));
    types.Keep(listed);
  }
  if (const auto* value = Member(schema, "const")) types.Keep(TypeOfValue(*value));
  return types;
}

JsonTypes ImpliedTypes(const OrderedJson& schema) {
  JsonTypes types;
  for (const auto& [keyword, type] : kTypedKeywords) {
    if (Member(schema, keyword) != nullptr) types.Add(JsonTypes(type));
  }
  return types.empty() ? JsonTypes::Unknown() : types;
}

/// What the schema of an object declares.
struct Declared {
  bool any = false;   // members at all
  bool name = false;  // this one among them
};

/// Looks into a schema and all that it refers to.
class SchemaReader {
 public:
  explicit SchemaReader(const OrderedJson& root) : root_(&root) {}

  JsonTypes OfValue(const OrderedJson& schema, int depth = 0) {
    if (schema == false) return {};
    if (!schema.is_object() || Spent(depth)) return JsonTypes::Unknown();
    JsonTypes types = OwnTypes(schema);
    types.Keep(Combined(schema, depth, [this](const OrderedJson& part, int below) {
      return OfValue(part, below);
    }));
    if (types.unknown()) types = ImpliedTypes(schema);
    const auto* nullable = Member(schema, "nullable");
    if (nullable != nullptr && *nullable == true) types.Add(JsonTypes(JsonType::kNull));
    return types;
  }

  JsonTypes OfMember(const OrderedJson& schema, std::string_view name, int depth = 0) {
    if (!schema.is_object() || Spent(depth)) return JsonTypes::Unknown();
    const auto* properties = Member(schema, "properties");
    const auto* own = properties == nullptr ? nullptr : Member(*properties, name);
    if (own == nullptr) own = Member(schema, "additionalProperties");
    JsonTypes types = own == nullptr ? JsonTypes::Unknown() : OfValue(*own, depth + 1);
    types.Keep(Combined(schema, depth, [this, name](const OrderedJson& part, int below) {
      return OfMember(part, name, below);
    }));
    return types;
  }

  void FindDeclared(const OrderedJson& schema, std::string_view name, Declared& found,
                    int depth = 0) {
    if (!schema.is_object() || Spent(depth)) return;
    if (const auto* properties = Member(schema, "properties")) {
      found.any = true;
      found.name |= Member(*properties, name) != nullptr;
    }
    Combined(schema, depth, [&](const OrderedJson& part, int below) {
      FindDeclared(part, name, found, below);
      return JsonTypes::Unknown();
    });
  }

 private:
  bool Spent(int depth) { return depth > kMaxDepth || ++schemas_ > kMaxSchemas; }

  /// What all parts allow that must hold beside a schema's own keywords.
  template <class Find>
  JsonTypes Combined(const OrderedJson& schema, int depth, const Find& find) {
    JsonTypes types = JsonTypes::Unknown();
    for (const std::string_view key : {"anyOf", "oneOf"}) {
      const auto* branches = Member(schema, key);
      if (branches == nullptr || !branches->is_array()) continue;
      JsonTypes any;
      for (const OrderedJson& branch : *branches) any.Add(find(branch, depth + 1));
      types.Keep(any);
    }
    if (const auto* all = Member(schema, "allOf"); all != nullptr && all->is_array()) {
      for (const OrderedJson& part : *all) types.Keep(find(part, depth + 1));
    }
    const auto* reference = Member(schema, "$ref");
    const auto* target = reference == nullptr ? nullptr : Resolve(*reference, *root_);
    if (target != nullptr) types.Keep(find(*target, depth + 1));
    return types;
  }

  const OrderedJson* root_;
  int schemas_ = 0;
};

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
  if (types.Has(JsonType::kNumber) && IsJsonNumber(text)) return std::string(text);
  if (types.Has(JsonType::kInteger)) {
    if (auto integer = IntegerText(text)) return integer;
  }
  const bool is_object = types.Has(JsonType::kObject) && text.starts_with('{');
  const bool is_array = types.Has(JsonType::kArray) && text.starts_with('[');
  const bool is_quoted =
      types.Has(JsonType::kString) && !types.WritesPlainStrings() && text.starts_with('"');
  if (!is_object && !is_array && !is_quoted) return std::nullopt;
  if (ParseOrderedJson(text, "argument").ok()) return std::string(text);
  // A model may repeat a key. Readers of JSON take the last; the next turn's history must be read.
  const auto value = ParseWithLastOfKeys(text, "argument");
  return value.ok() ? std::optional(OrderedText(*value)) : std::nullopt;
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

const OrderedJson* ToolSchemas::ParametersOf(std::string_view function) const {
  const auto* found = Find(function);
  return found == nullptr ? nullptr : Member(*found, "parameters");
}

JsonTypes ToolSchemas::TypesOf(std::string_view function, std::string_view argument) const {
  const auto* parameters = ParametersOf(function);
  if (parameters == nullptr) return JsonTypes::Unknown();
  return SchemaReader(*parameters).OfMember(*parameters, argument);
}

bool ToolSchemas::Takes(std::string_view function, std::string_view argument) const {
  const auto* parameters = ParametersOf(function);
  if (parameters == nullptr) return false;
  Declared declared;
  SchemaReader(*parameters).FindDeclared(*parameters, argument, declared);
  return declared.name || !declared.any;
}

}  // namespace kv8
