#include "schema_oracle.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

#include "base/utf8.h"

namespace kv8::test {
namespace {

const OrderedJson& Referred(const OrderedJson& ref, const OrderedJson& root) {
  return root.at(OrderedJson::json_pointer(ref.get<std::string>().substr(1)));
}

bool HasType(const OrderedJson& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (LargeInteger(value)) return type == "number" || type == "integer";
  if (!value.is_number()) return false;
  return type == "number" || value.get<double>() == std::floor(value.get<double>());
}

std::size_t Length(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

bool ObjectFits(const OrderedJson& value, const OrderedJson& schema, const OrderedJson& root) {
  for (const OrderedJson& name : schema.value("required", OrderedJson::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  const OrderedJson properties = schema.value("properties", OrderedJson::object());
  const OrderedJson additional = schema.value("additionalProperties", OrderedJson(true));
  for (const auto& [name, item] : value.items()) {
    const OrderedJson& part = properties.contains(name) ? properties[name] : additional;
    if (!Satisfies(item, part, root)) return false;
  }
  return true;
}

bool ArrayFits(const OrderedJson& value, const OrderedJson& schema, const OrderedJson& root) {
  const OrderedJson prefix = schema.value("prefixItems", OrderedJson::array());
  const OrderedJson items = schema.value("items", OrderedJson(true));
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!Satisfies(value[i], i < prefix.size() ? prefix[i] : items, root)) return false;
  }
  return value.size() >= schema.value("minItems", std::size_t{0}) &&
         value.size() <= schema.value("maxItems", std::size_t{1} << 40);
}

bool StringFits(const OrderedJson& value, const OrderedJson& schema, const OrderedJson& root) {
  const auto& text = value.get_ref<const std::string&>();
  if (schema.contains("contentMediaType")) {
    const OrderedJson content = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
    const OrderedJson inner = schema.value("contentSchema", OrderedJson(true));
    if (content.is_discarded() || !Satisfies(content, inner, root)) return false;
  }
  if (Length(text) < schema.value("minLength", std::size_t{0})) return false;
  if (Length(text) > schema.value("maxLength", std::size_t{1} << 40)) return false;
  if (!schema.contains("pattern")) return true;
  return std::regex_search(text, std::regex(schema["pattern"].get<std::string>()));
}

bool NumberFits(const OrderedJson& value, const OrderedJson& schema) {
  const auto number = value.get<double>();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double quotient = number / schema.value("multipleOf", number == 0 ? 1 : number);
  if (std::abs(quotient - std::round(quotient)) > 1e-9) return false;
  return number >= schema.value("minimum", -kInf) && number <= schema.value("maximum", kInf) &&
         number > schema.value("exclusiveMinimum", -kInf) &&
         number < schema.value("exclusiveMaximum", kInf);
}

bool AnyFits(const OrderedJson& value, const OrderedJson& branches, const OrderedJson& root) {
  return std::any_of(branches.begin(), branches.end(),
                     [&](const OrderedJson& branch) { return Satisfies(value, branch, root); });
}

}  // namespace

bool Satisfies(const OrderedJson& value, const OrderedJson& schema, const OrderedJson& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref") && !Satisfies(value, Referred(schema["$ref"], root), root)) {
    return false;
  }
  for (const OrderedJson& part : schema.value("allOf", OrderedJson::array())) {
    if (!Satisfies(value, part, root)) return false;
  }
  if (schema.contains("anyOf") && !AnyFits(value, schema["anyOf"], root)) return false;
  if (schema.contains("oneOf") && !AnyFits(value, schema["oneOf"], root)) return false;
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum")) {
    const OrderedJson& list = schema["enum"];
    if (std::find(list.begin(), list.end(), value) == list.end()) return false;
  }
  if (schema.contains("type")) {
    const OrderedJson& type = schema["type"];
    const OrderedJson types = type.is_array() ? type : OrderedJson::array({type});
    if (std::none_of(types.begin(), types.end(),
                     [&](const OrderedJson& t) { return HasType(value, t.get<std::string>()); })) {
      return false;
    }
  }
  if (value.is_object()) return ObjectFits(value, schema, root);
  if (value.is_array()) return ArrayFits(value, schema, root);
  if (value.is_string()) return StringFits(value, schema, root);
  return !value.is_number() || NumberFits(value, schema);
}

namespace {

std::string RandomString(std::size_t min, std::size_t max, std::mt19937& random) {
  static const char32_t kChars[] = {'a', 'b', ' ', '"', '\\', '\n', 0x1F, 0xE9, 0x20AC, 0x1F600};
  const std::size_t length = min + random() % (std::min(max, min + 6) - min + 1);
  std::string text;
  for (std::size_t i = 0; i < length; ++i) AppendUtf8(kChars[random() % std::size(kChars)], text);
  return text;
}

OrderedJson RandomAny(std::mt19937& random, int depth) {
  switch (random() % (depth > 3 ? 5 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random()) - (std::int64_t{1} << 31);
    case 3:
      return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 80) - 60);
    case 4:
      return RandomString(0, 6, random);
    case 5:
      return OrderedJson::array({RandomAny(random, depth + 1), RandomAny(random, depth + 1)});
    default:
      return {{RandomString(0, 4, random), RandomAny(random, depth + 1)}};
  }
}

OrderedJson RandomObject(const OrderedJson& schema, const OrderedJson& root, std::mt19937& random,
                         int depth) {
  const OrderedJson required = schema.value("required", OrderedJson::array());
  OrderedJson object = OrderedJson::object();
  if (!schema.contains("properties")) {
    const OrderedJson additional = schema.value("additionalProperties", OrderedJson(true));
    if (additional == false || random() % 4 == 0) return object;
    object[RandomString(0, 4, random)] = RandomValue(additional, root, random, depth + 1);
    return object;
  }
  for (const auto& [name, part] : schema["properties"].items()) {
    const bool must = std::find(required.begin(), required.end(), name) != required.end();
    if (!must && (depth > 3 || random() % 2 == 0)) continue;
    object[name] = RandomValue(part, root, random, depth + 1);
  }
  return object;
}

OrderedJson RandomArray(const OrderedJson& schema, const OrderedJson& root, std::mt19937& random,
                        int depth) {
  const OrderedJson prefix = schema.value("prefixItems", OrderedJson::array());
  const std::size_t min = schema.value("minItems", std::size_t{0});
  const bool none = schema.value("items", OrderedJson(true)) == false;
  const std::size_t more = !none && (schema.contains("items") || prefix.empty()) ? 3 : 0;
  const std::size_t max =
      std::min(schema.value("maxItems", std::size_t{1} << 40), std::max(min, prefix.size() + more));
  const std::size_t size = depth > 3 ? min : min + random() % (max - min + 1);
  OrderedJson array = OrderedJson::array();
  for (std::size_t i = 0; i < size; ++i) {
    const OrderedJson part =
        i < prefix.size() ? prefix[i] : schema.value("items", OrderedJson(true));
    array.push_back(RandomValue(part, root, random, depth + 1));
  }
  return array;
}

std::int64_t RandomInteger(const OrderedJson& schema, std::mt19937& random) {
  std::int64_t low = schema.value("minimum", std::int64_t{-1000});
  std::int64_t high = schema.value("maximum", std::max<std::int64_t>(low, 0) + 1000);
  low = std::max(low, schema.value("exclusiveMinimum", low - 1) + 1);
  high = std::min(high, schema.value("exclusiveMaximum", high + 1) - 1);
  low = std::min(low, high);
  const std::int64_t value =
      low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  return value - value % schema.value("multipleOf", std::int64_t{1});  // towards 0
}

}  // namespace

OrderedJson RandomValue(const OrderedJson& schema, const OrderedJson& root, std::mt19937& random,
                        int depth) {
  if (schema == true || schema.empty()) return RandomAny(random, depth);
  if (schema.contains("$ref")) {
    return RandomValue(Referred(schema["$ref"], root), root, random, depth);
  }
  for (const char* any : {"anyOf", "oneOf"}) {
    if (!schema.contains(any)) continue;
    const OrderedJson& branches = schema[any];
    return RandomValue(branches[depth > 3 ? 0 : random() % branches.size()], root, random, depth);
  }
  if (schema.contains("const")) return schema["const"];
  if (schema.contains("enum")) return schema["enum"][random() % schema["enum"].size()];
  const OrderedJson& types = schema["type"];
  const std::string type =
      (types.is_array() ? types[random() % types.size()] : types).get<std::string>();
  if (type == "object") return RandomObject(schema, root, random, depth);
  if (type == "array") return RandomArray(schema, root, random, depth);
  if (type == "string" && schema.contains("contentSchema")) {
    return RandomValue(schema["contentSchema"], root, random, depth + 1).dump();
  }
  if (type == "string") {
    return RandomString(schema.value("minLength", std::size_t{0}),
                        schema.value("maxLength", std::size_t{1} << 40), random);
  }
  if (type == "integer") return RandomInteger(schema, random);
  if (type == "boolean") return random() % 2 == 0;
  if (type == "null") return nullptr;
  return schema.contains("minimum") || schema.contains("maximum")
             ? OrderedJson(RandomInteger(schema, random))
             : OrderedJson(static_cast<double>(random()) / 1024);
}

}  // namespace kv8::test
