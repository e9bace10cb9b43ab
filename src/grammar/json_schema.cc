#include "grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/json.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"

namespace kv8 {
namespace {

// Text of all schemas that rules are made of, references resolved.
constexpr std::size_t kMaxCompiledBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxValues = 10'000;  // of one enum

constexpr auto kTypes = std::to_array<const char*>(
    {"object", "array", "string", "number", "integer", "boolean", "null"});

struct TypedKeyword {
  std::string_view keyword;
  std::string_view type;
};
// Keywords that say something about values of one type only.
constexpr auto kTypedKeywords = std::to_array<TypedKeyword>({
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"contentMediaType", "string"},
    {"contentSchema", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
    {"multipleOf", "number"},
});

/// The types of a schema: those it names, else those that its keywords are about; none: any.
Result<std::vector<std::string>> TypesOf(const OrderedJson& schema, const std::string& path) {
  std::vector<std::string> types;
  const auto add = [&types](std::string_view type) {
    if (std::find(types.begin(), types.end(), type) == types.end()) types.emplace_back(type);
  };
  if (!schema.contains("type")) {
    for (const auto& [keyword, type] : kTypedKeywords) {
      if (schema.contains(keyword)) add(type);
    }
    return types;
  }
  const OrderedJson& named = schema["type"];
  for (const OrderedJson& type : named.is_array() ? named : OrderedJson::array({named})) {
    const bool known = type.is_string() && std::find(kTypes.begin(), kTypes.end(),
                                                     type.get<std::string>()) != kTypes.end();
    if (!known) return BadSchema(Below(path, "type"), "is not a type of JSON Schema");
    add(type.get<std::string>());
  }
  // Every integer is a number, and would be read in two ways.
  if (std::find(types.begin(), types.end(), "number") != types.end()) std::erase(types, "integer");
  return types;
}

bool IsOfType(const OrderedJson& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number() || LargeInteger(value);
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return value.is_number_integer() || LargeInteger(value) ||
         (value.is_number_float() && value.get<double>() == std::trunc(value.get<double>()));
}

}  // namespace

Result<Program> SchemaCompiler::Compile(const OrderedJson& schema, const std::string& path) && {
  KV8_ASSIGN_OR_RETURN(const RuleId start, RuleOf(schema, path));
  while (!pending_.empty() && !builder_.full()) {
    const Pending next = std::move(pending_.back());
    pending_.pop_back();
    writing_ = next.writing;
    builder_.SetQuoting(writing_.quoting);
    KV8_ASSIGN_OR_RETURN(const Pc entry, Body(next.schema, next.path));
    builder_.SetEntry(next.rule, entry);
  }
  return std::move(builder_).Finish(start, "JSON schema");
}

Result<RuleId> SchemaCompiler::RuleOf(const OrderedJson& schema, const std::string& path,
                                      Writing writing) {
  const bool plain = writing.strings == TextForm::kPlain;
  const std::string text =
      fmt::format("{}{} {}", plain ? "plain" : "JSON", writing.quoting, OrderedText(schema));
  const auto known = rules_.find(text);
  if (known != rules_.end()) return known->second;
  bytes_ += text.size();
  if (bytes_ > kMaxCompiledBytes) {
    return Error{Code::kResourceExhausted,
                 fmt::format("with its references it is larger than {} bytes", kMaxCompiledBytes),
                 "JSON schema " + path, "make it smaller"};
  }
  const RuleId rule = builder_.AddRule();
  rules_.emplace(text, rule);
  pending_.push_back({rule, schema, path, writing});
  return rule;
}

Result<Pc> SchemaCompiler::CallOf(const OrderedJson& schema, const std::string& path, Pc next) {
  KV8_ASSIGN_OR_RETURN(const RuleId rule, RuleOf(schema, path));
  return builder_.Call(rule, next);
}

Result<Pc> SchemaCompiler::Body(const OrderedJson& schema, const std::string& path) {
  KV8_ASSIGN_OR_RETURN(const OrderedJson flat, merger_.Flatten(schema, path));
  if (flat == false) return builder_.Nothing();
  if (flat == true || flat.empty()) return AnyValue();
  return Flat(flat, path);
}

Result<Pc> SchemaCompiler::Flat(const OrderedJson& schema, const std::string& path) {
  if (schema.contains("anyOf")) return Branches(schema, "anyOf", path);
  if (schema.contains("oneOf")) return Branches(schema, "oneOf", path);
  if (NamesValues(schema)) return Listed(schema, path);
  KV8_ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(schema, path));
  if (types.empty()) {
    return schema.contains("type") ? builder_.Nothing() : AnyValue();
  }
  std::optional<Pc> entry;
  for (const std::string& type : types) {
    KV8_ASSIGN_OR_RETURN(const Pc way, OfType(type, schema, path));
    entry = entry ? builder_.Either(*entry, way) : way;
  }
  return *entry;
}

Pc SchemaCompiler::AnyValue() {
  if (writing_.strings == TextForm::kJsonString) return text_.Value(kReturnPc);
  return AddText(builder_, 0, kNoLimit, TextForm::kPlain, kReturnPc);
}

/// Any of the branches, each with what the schema says beside them.
Result<Pc> SchemaCompiler::Branches(OrderedJson schema, const char* keyword,
                                    const std::string& path) {
  const OrderedJson branches = schema[keyword];
  const std::string place = Below(path, keyword);
  if (!branches.is_array() || branches.empty()) return BadSchema(place, "is not a list of schemas");
  schema.erase(keyword);
  Pc entry = builder_.Nothing();
  for (std::size_t i = 0; i < branches.size(); ++i) {
    OrderedJson branch = branches[i];
    if (!schema.empty()) branch = {{"allOf", OrderedJson::array({schema, branch})}};
    KV8_ASSIGN_OR_RETURN(const Pc way,
                         CallOf(branch, Below(place, fmt::format("{}", i)), kReturnPc));
    entry = builder_.Either(way, entry);
  }
  return entry;
}

Result<Pc> SchemaCompiler::Listed(const OrderedJson& schema, const std::string& path) {
  const std::string place = Below(path, "enum");
  if (schema.contains("enum") && !schema["enum"].is_array())
    return BadSchema(place, "is not a list");
  for (const auto& [keyword, type] : kTypedKeywords) {
    if (!schema.contains(keyword) || type == "number") continue;
    return CannotHonour(path, fmt::format("\"{}\" beside \"enum\" or \"const\"", keyword));
  }
  const OrderedJson values = SchemaValues(schema);
  if (values.size() > kMaxValues) {
    return Error{Code::kResourceExhausted,
                 fmt::format("{} values; at most {} can be listed", values.size(), kMaxValues),
                 "JSON schema " + place, "use a pattern"};
  }
  KV8_ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(schema, path));
  std::vector<std::string> texts;
  for (const OrderedJson& value : values) {
    const bool fits = !schema.contains("type") ||
                      std::any_of(types.begin(), types.end(),
                                  [&](const std::string& type) { return IsOfType(value, type); });
    KV8_ASSIGN_OR_RETURN(const bool keeps, KeepsLimits(value, schema, path));
    const bool plain = writing_.strings == TextForm::kPlain && value.is_string();
    if (fits && keeps) texts.push_back(plain ? value.get<std::string>() : OrderedText(value));
  }
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return text_.OneOf(texts, kReturnPc);
}

Result<Pc> SchemaCompiler::OfType(const std::string& type, const OrderedJson& schema,
                                  const std::string& path) {
  if (writing_.strings == TextForm::kPlain && type != "string" && type != "null") {
    return CannotHonour(path, "values that are not strings, beside strings without quotes");
  }
  if (type == "object") return ObjectOf(schema, path);
  if (type == "array") return ArrayOf(schema, path);
  if (type == "string") return StringOf(schema, path);
  if (type == "number") return NumberOf(schema, path);
  if (type == "integer") return IntegerOf(schema, path);
  if (type == "boolean") return text_.Boolean(kReturnPc);
  return text_.Null(kReturnPc);
}

Result<Program> CompileJsonSchema(const OrderedJson& schema) {
  return SchemaCompiler(schema).Compile(schema, "#");
}

Result<Program> CompileJsonObject() {
  return CompileJsonSchema({{"type", "object"}});
}

Result<Program> CompileRegex(std::string_view pattern) {
  constexpr std::string_view kWhere = "regular expression";
  KV8_ASSIGN_OR_RETURN(const Regex regex, ParseRegex(pattern, kWhere));
  ProgramBuilder builder;
  const RuleId start = builder.AddRule();
  builder.SetEntry(start, AddRegex(builder, regex, Anchoring::kWhole, TextForm::kPlain, kReturnPc));
  return std::move(builder).Finish(start, kWhere);
}

}  // namespace kv8
