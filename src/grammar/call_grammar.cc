#include "grammar/call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "grammar/char_set.h"
#include "grammar/guarded_copy.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_merge.h"
#include "text/tool_call_parser.h"
#include "text/tool_schemas.h"

namespace kv8 {
namespace {

constexpr std::uint32_t kMaxExtraName = 64;  // characters of a name that is not declared

// Beginnings of the tags that may end a value, long enough to be nothing else.
const WordGuard& ValueGuard() {
  static const WordGuard kGuard('<', {"</param", "</funct", "</tool_", "<parame"});
  return kGuard;
}

/// Values, each kind once.
class ValueRules {
 public:
  ValueRules(ProgramBuilder& builder, const ToolSchemas& schemas)
      : builder_(&builder), schemas_(&schemas) {}

  /// The rule of the argument's value. `root`: the function's parameters.
  Result<RuleId> RuleOf(const std::string& function, const std::string& argument,
                        const OrderedJson& schema, const OrderedJson& root,
                        const std::string& path) {
    const bool plain = schemas_->TypesOf(function, argument).WritesPlainStrings();
    KV8_ASSIGN_OR_RETURN(const OrderedJson flat, SchemaMerger(root).Flatten(schema, path));
    std::string key = fmt::format("{} {}", plain ? "plain" : "JSON", OrderedText(flat));
    // References mean another schema in another function.
    if (key.find("$ref") != std::string::npos) key += function;
    if (const auto known = rules_.find(key); known != rules_.end()) return known->second;
    const TextForm strings = plain ? TextForm::kPlain : TextForm::kJsonString;
    KV8_ASSIGN_OR_RETURN(const Program value, SchemaCompiler(root, strings).Compile(schema, path));
    const RuleId rule = builder_->AddRule();
    builder_->SetEntry(rule, AddGuarded(*builder_, value, ValueGuard()));
    rules_.emplace(std::move(key), rule);
    return rule;
  }

 private:
  ProgramBuilder* builder_;
  const ToolSchemas* schemas_;
  std::map<std::string, RuleId> rules_;
};

/// A name that is none of `names`, which are sorted and share their first `from` characters, which
/// have been read.
Pc NameBesides(ProgramBuilder& builder, std::span<const std::u32string> names, std::size_t from,
               Pc next) {
  CharSet others =
      CharSet::All().Without(CharSet::Of('<').Add('>', '>').Add('\n', '\n').Add('\r', '\r'));
  const Pc rest =
      builder.Loop(AddChars(builder, others, TextForm::kPlain, kReturnPc), 0, kMaxExtraName, next);
  const bool is_name = !names.empty() && names.front().size() == from;
  Pc entry = is_name || from == 0 ? builder.Nothing() : next;
  if (is_name) names = names.subspan(1);
  while (!names.empty()) {
    const char32_t c = names.front()[from];
    const auto end = std::find_if(names.begin(), names.end(),
                                  [&](const std::u32string& name) { return name[from] != c; });
    const auto count = static_cast<std::size_t>(end - names.begin());
    const Pc deeper = NameBesides(builder, names.first(count), from + 1, next);
    entry = builder.Either(builder.Literal(Written(c, TextForm::kPlain), deeper), entry);
    others = others.Without(CharSet::Of(c));
    names = names.subspan(count);
  }
  return builder.Either(AddChars(builder, others, TextForm::kPlain, rest), entry);
}

/// The parameters of one function.
class ParameterCompiler {
 public:
  ParameterCompiler(ProgramBuilder& builder, ValueRules& values, std::string function,
                    const OrderedJson& root)
      : builder_(&builder),
        values_(&values),
        merger_(root),
        root_(&root),
        function_(std::move(function)) {}

  /// Reads parameters that satisfy `schema`, then goes on at `next`.
  Result<Pc> Add(const OrderedJson& schema, const std::string& path, Pc next) {
    KV8_ASSIGN_OR_RETURN(const OrderedJson flat, merger_.Flatten(schema, path));
    if (flat == false) return builder_->Nothing();
    if (flat == true) return AddMembers(OrderedJson::object(), path, next);
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (flat.contains(keyword)) return AddBranches(flat, keyword, path, next);
    }
    if (NamesValues(flat)) return AddListed(flat, path, next);
    const OrderedJson type = flat.value("type", OrderedJson("object"));
    const bool is_object =
        type == "object" || std::find(type.begin(), type.end(), "object") != type.end();
    return is_object ? AddMembers(flat, path, next) : builder_->Nothing();
  }

 private:
  Result<Pc> AddBranches(OrderedJson flat, const char* keyword, const std::string& path, Pc next) {
    const OrderedJson branches = flat[keyword];
    const std::string place = Below(path, keyword);
    if (!branches.is_array()) return BadSchema(place, "is not a list of schemas");
    flat.erase(keyword);
    Pc entry = builder_->Nothing();
    for (std::size_t i = 0; i < branches.size(); ++i) {
      const OrderedJson both = {{"allOf", OrderedJson::array({flat, branches[i]})}};
      KV8_ASSIGN_OR_RETURN(const Pc way, Add(both, Below(place, fmt::format("{}", i)), next));
      entry = builder_->Either(way, entry);
    }
    return entry;
  }

  /// The objects that a schema lists, each as the schema of its members.
  Result<Pc> AddListed(const OrderedJson& flat, const std::string& path, Pc next) {
    Pc entry = builder_->Nothing();
    for (const OrderedJson& value : SchemaValues(flat)) {
      if (!value.is_object()) continue;
      OrderedJson members = {{"properties", OrderedJson::object()},
                             {"required", OrderedJson::array()},
                             {"additionalProperties", false}};
      for (const auto& [name, member] : value.items()) {
        members["properties"][name] = {{"const", member}};
        members["required"].push_back(name);
      }
      KV8_ASSIGN_OR_RETURN(const Pc way, AddMembers(members, Below(path, "enum"), next));
      entry = builder_->Either(way, entry);
    }
    return entry;
  }

  Result<Pc> AddMembers(const OrderedJson& flat, const std::string& path, Pc next) {
    KV8_ASSIGN_OR_RETURN(const auto properties, SchemaCompiler::PropertiesOf(flat, path));
    const bool declares = flat.contains("properties");
    const OrderedJson additional = flat.value("additionalProperties", OrderedJson(!declares));
    if (additional != false) {
      KV8_ASSIGN_OR_RETURN(next, AddExtra(properties, additional, path, next));
    }
    for (std::size_t i = properties.size(); i > 0; --i) {
      const SchemaCompiler::Property& property = properties[i - 1];
      const std::string place = Below(Below(path, "properties"), property.name);
      if (!IsToolName(property.name)) {
        return CannotHonour(place, "its name is none that a call can hold");
      }
      KV8_ASSIGN_OR_RETURN(const Pc value, AddValue(property.name, property.schema, place, next));
      const Pc one = builder_->Literal(fmt::format("<parameter={}>\n", property.name), value);
      next = property.required ? one : builder_->Either(one, next);
    }
    return next;
  }

  Result<Pc> AddValue(const std::string& name, const OrderedJson& schema, const std::string& path,
                      Pc next) {
    KV8_ASSIGN_OR_RETURN(const RuleId rule, values_->RuleOf(function_, name, schema, *root_, path));
    return builder_->Call(rule, builder_->Literal("\n</parameter>\n", next));
  }

  /// Any number of parameters that are not declared.
  Result<Pc> AddExtra(const std::vector<SchemaCompiler::Property>& properties,
                      const OrderedJson& schema, const std::string& path, Pc next) {
    std::vector<std::u32string> names;
    for (const SchemaCompiler::Property& property : properties) {
      names.push_back(CharactersOf(property.name));
    }
    std::sort(names.begin(), names.end());
    const Pc split = builder_->OpenSplit(next);
    KV8_ASSIGN_OR_RETURN(const Pc value,
                         AddValue("", schema, Below(path, "additionalProperties"), split));
    const Pc name = NameBesides(*builder_, names, 0, builder_->Literal(">\n", value));
    builder_->Close(split, builder_->Literal("<parameter=", name));
    return split;
  }

  ProgramBuilder* builder_;
  ValueRules* values_;
  SchemaMerger merger_;
  const OrderedJson* root_;
  std::string function_;
};

}  // namespace

Result<Program> CompileCalls(const OrderedJson& tools, std::string_view name, CallSchemas schemas) {
  const ToolSchemas types(tools);
  ProgramBuilder builder;
  ValueRules values(builder, types);
  const Pc end = builder.Literal("</function>\n", kReturnPc);
  Pc entry = builder.Nothing();
  std::set<std::string_view> names;
  for (const OrderedJson& tool : tools) {
    const OrderedJson& function = tool["function"];
    const auto& own_name = function["name"].get_ref<const std::string&>();
    if (!name.empty() && name != own_name) continue;
    if (!names.insert(own_name).second) continue;  // the first of a name is the one that is called
    Pc body = end;
    if (schemas == CallSchemas::kStrict && function.value("strict", OrderedJson()) != true) {
      body = AddText(builder, 0, kNoLimit, TextForm::kPlain, kReturnPc);
    } else if (const OrderedJson root = function.value("parameters", OrderedJson());
               !root.is_null()) {
      auto parameters = ParameterCompiler(builder, values, own_name, root).Add(root, "#", end);
      if (!parameters.ok()) {
        Error error = std::move(parameters).error();
        error.where = fmt::format("function \"{}\", {}", own_name, error.where);
        return error;
      }
      body = *parameters;
    }
    const std::string begin = fmt::format("\n<function={}>\n", own_name);
    entry = builder.Either(builder.Literal(begin, body), entry);
  }
  const RuleId start = builder.AddRule();
  builder.SetEntry(start, entry);
  return std::move(builder).Finish(start, "tools");
}

}  // namespace kv8
