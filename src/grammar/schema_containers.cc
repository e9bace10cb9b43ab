// Objects and arrays of a schema.
#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "grammar/schema_compiler.h"

namespace kv8 {
namespace {

// Of one object: each optional one is a way to go on, and Machine bounds those.
constexpr std::size_t kMaxProperties = 1000;
// Longest name that other names must be told from.
constexpr std::size_t kMaxNameBytes = 256;

}  // namespace

Result<std::vector<SchemaCompiler::Property>> SchemaCompiler::PropertiesOf(
    const OrderedJson& schema, const std::string& path) {
  const OrderedJson declared = schema.value("properties", OrderedJson::object());
  if (!declared.is_object()) return BadSchema(Below(path, "properties"), "is not an object");
  std::vector<Property> properties;
  for (const auto& [name, value] : declared.items()) properties.push_back({name, value});
  const OrderedJson required = schema.value("required", OrderedJson::array());
  const std::string place = Below(path, "required");
  if (!required.is_array()) return BadSchema(place, "is not a list of names");
  if (properties.size() + required.size() > 2 * kMaxProperties) {
    return Error{Code::kResourceExhausted, fmt::format("more than {} properties", kMaxProperties),
                 "JSON schema " + path, "split the object"};
  }
  for (const OrderedJson& name : required) {
    if (!name.is_string()) return BadSchema(place, "is not a list of names");
    const auto& text = name.get_ref<const std::string&>();
    const auto found = std::find_if(properties.begin(), properties.end(),
                                    [&](const Property& p) { return p.name == text; });
    if (found != properties.end()) {
      found->required = true;
    } else {
      properties.push_back({text, schema.value("additionalProperties", OrderedJson(true)), true});
    }
  }
  return properties;
}

Result<Pc> SchemaCompiler::ObjectOf(const OrderedJson& schema, const std::string& path) {
  KV8_ASSIGN_OR_RETURN(std::vector<Property> properties, PropertiesOf(schema, path));
  const OrderedJson additional =
      schema.value("additionalProperties", OrderedJson(properties.empty()));
  if (properties.empty() && additional == true) return text_.Object(kReturnPc);
  return Members(properties, additional, path);
}

/// Declared properties in order, then additional ones.
Result<Pc> SchemaCompiler::Members(const std::vector<Property>& properties,
                                   const OrderedJson& additional, const std::string& path) {
  // Where the object goes on after some member, and before the first one.
  Pc after = text_.Space(builder_.Literal("}", kReturnPc));
  Pc first = builder_.Literal("}", kReturnPc);
  if (additional != false) {
    KV8_ASSIGN_OR_RETURN(const RuleId value,
                         RuleOf(additional, Below(path, "additionalProperties")));
    const Pc split = builder_.OpenSplit(after);
    KV8_ASSIGN_OR_RETURN(const Pc extra, ExtraPair(properties, value, path, split));
    builder_.Close(split, text_.Comma(extra));
    after = split;
    first = builder_.Either(extra, first);
  }
  for (std::size_t i = properties.size(); i > 0; --i) {
    const Property& property = properties[i - 1];
    KV8_ASSIGN_OR_RETURN(const Pc pair, Pair(property, path, after));
    first = property.required ? pair : builder_.Either(pair, first);
    after = property.required ? text_.Comma(pair) : builder_.Either(text_.Comma(pair), after);
  }
  return builder_.Literal("{", text_.Space(first));
}

std::string SchemaCompiler::PlaceOf(const Property& property, const std::string& path) {
  return Below(Below(path, "properties"), property.name);
}

Result<Pc> SchemaCompiler::Pair(const Property& property, const std::string& path, Pc next) {
  KV8_ASSIGN_OR_RETURN(const Pc value, CallOf(property.schema, PlaceOf(property, path), next));
  return builder_.Literal(OrderedJson(property.name).dump(), text_.Colon(value));
}

/// A pair after the declared ones. A declared name may come here too, with its own schema: it may
/// have been left out, and a name that could begin and not end would lead the model astray.
Result<Pc> SchemaCompiler::ExtraPair(const std::vector<Property>& properties, RuleId value,
                                     const std::string& path, Pc next) {
  const Pc colon = text_.Colon(builder_.Call(value, next));
  if (properties.empty()) return text_.String(colon);
  std::vector<KeyName> names;
  for (const Property& property : properties) {
    if (property.name.size() > kMaxNameBytes) {
      return Error{Code::kResourceExhausted,
                   fmt::format("a name of {} bytes beside additional properties; at most {}",
                               property.name.size(), kMaxNameBytes),
                   "JSON schema", "shorten the name"};
    }
    KV8_ASSIGN_OR_RETURN(const Pc own, CallOf(property.schema, PlaceOf(property, path), next));
    names.push_back({CharactersOf(property.name), text_.Colon(own)});
  }
  std::ranges::sort(names, {}, &KeyName::name);
  return text_.Key(names, colon);
}

Result<Pc> SchemaCompiler::ArrayOf(const OrderedJson& schema, const std::string& path) {
  KV8_ASSIGN_OR_RETURN(Limits limits, LimitsOf(schema, "minItems", "maxItems", path));
  const OrderedJson prefix = schema.value("prefixItems", OrderedJson::array());
  if (!prefix.is_array()) return BadSchema(Below(path, "prefixItems"), "is not a list of schemas");
  // Like properties: what is not declared does not come, unless it must.
  const bool open = prefix.empty() || limits.min > prefix.size();
  const OrderedJson items = schema.value("items", OrderedJson(open));
  if (items.is_array()) return CannotHonour(Below(path, "items"), "is a list; use \"prefixItems\"");
  if (limits.min > limits.max) return builder_.Nothing();

  const Pc close = text_.Space(builder_.Literal("]", kReturnPc));
  const auto count = static_cast<std::uint32_t>(prefix.size());
  const auto rest = [](std::uint32_t limit, std::uint32_t used) {
    return limit == kNoLimit ? kNoLimit : limit - std::min(limit, used);
  };
  // From the last place on: `after` goes on when that many items have been read.
  KV8_ASSIGN_OR_RETURN(Pc after, MoreItems(items,
                                           {rest(limits.min, std::max(count, 1u)),
                                            rest(limits.max, std::max(count, 1u))},
                                           path, close));
  std::vector<OrderedJson> places(prefix.begin(), prefix.end());
  if (places.empty()) places.push_back(items);
  for (std::uint32_t i = static_cast<std::uint32_t>(places.size()); i > 0; --i) {
    const std::string place = prefix.empty()
                                  ? Below(path, "items")
                                  : Below(Below(path, "prefixItems"), fmt::format("{}", i - 1));
    KV8_ASSIGN_OR_RETURN(const Pc item, CallOf(places[i - 1], place, after));
    const bool may_come = i <= limits.max;
    const bool may_end = i - 1 >= limits.min;
    const Pc end = i == 1 ? builder_.Literal("]", kReturnPc) : close;
    const Pc go_on = !may_come ? builder_.Nothing() : i == 1 ? item : text_.Comma(item);
    after = may_end ? builder_.Either(go_on, end) : go_on;
  }
  return builder_.Literal("[", text_.Space(after));
}

/// Items after another one.
Result<Pc> SchemaCompiler::MoreItems(const OrderedJson& items, Limits limits,
                                     const std::string& path, Pc close) {
  KV8_ASSIGN_OR_RETURN(const RuleId rule, RuleOf(items, Below(path, "items")));
  if (limits.min == 0 && limits.max == kNoLimit) {
    return text_.CommaRepeat([&](Pc next) { return builder_.Call(rule, next); }, close);
  }
  if (limits.max == 0) return close;
  const Pc body = text_.Comma(builder_.Call(rule, kReturnPc));
  return builder_.Loop(body, limits.min, limits.max, close);
}

}  // namespace kv8
