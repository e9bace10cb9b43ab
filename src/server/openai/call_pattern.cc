#include "server/openai/call_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace kv8::openai {
namespace {

constexpr std::string_view kInteger = "-?(0|[1-9][0-9]*)";
constexpr std::string_view kNumber = R"(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?)";
constexpr std::string_view kTagName = "[^<>\\n]+";

/// Any text in which "</parameter" does not occur: a '<' may be followed by a beginning of the tag
/// only if another '<' or a character that breaks the tag follows that.
std::string FreeText() {
  constexpr std::string_view kTag = "/parameter";  // behind '<'
  std::string begun;
  std::string broken = fmt::format("[^<{}]", kTag.back());
  for (std::size_t i = kTag.size() - 1; i-- > 0;) {
    begun = fmt::format("({}{})?", kTag[i], begun);
    broken = fmt::format("([^<{0}]|{0}{1})", kTag[i], broken);
  }
  return fmt::format("([^<]|(<{0})*<{1})*(<{0})*", begun, broken);
}

/// One of the strings that a schema lists; empty when it does not list strings only.
std::string ListedStrings(const OrderedJson& schema) {
  const auto listed = schema.find("enum");
  if (listed == schema.end() || !listed->is_array()) return {};
  std::string pattern;
  for (const OrderedJson& value : *listed) {
    if (!value.is_string()) return {};
    const auto& text = value.get_ref<const std::string&>();
    if (text.find("</parameter") != std::string::npos) return {};
    pattern += pattern.empty() ? '(' : '|';
    pattern += EscapePattern(text);
  }
  return pattern.empty() ? pattern : pattern + ")";
}

std::string ValuePattern(const OrderedJson& schema) {
  if (schema.is_object()) {
    if (std::string listed = ListedStrings(schema); !listed.empty()) return listed;
    const auto type = schema.find("type");
    if (type != schema.end() && *type == "integer") return std::string(kInteger);
    if (type != schema.end() && *type == "number") return std::string(kNumber);
    if (type != schema.end() && *type == "boolean") return "(true|false)";
  }
  return FreeText();
}

std::string ParameterPattern(std::string_view name, std::string_view value) {
  return fmt::format("<parameter={}>\n{}\n</parameter>\n", name, value);
}

std::set<std::string> RequiredNames(const OrderedJson& parameters) {
  std::set<std::string> names;
  const auto required = parameters.find("required");
  if (required == parameters.end() || !required->is_array()) return names;
  for (const OrderedJson& name : *required) {
    if (name.is_string()) names.insert(name.get<std::string>());
  }
  return names;
}

std::string ParametersPattern(const OrderedJson& function) {
  const auto parameters = function.find("parameters");
  if (parameters == function.end() || !parameters->is_object()) return {};
  const auto properties = parameters->find("properties");
  if (properties == parameters->end() || !properties->is_object()) {
    return fmt::format("({})*", ParameterPattern(kTagName, FreeText()));
  }
  const std::set<std::string> required = RequiredNames(*parameters);
  std::string pattern;
  for (const auto& [name, schema] : properties->items()) {
    const std::string one = ParameterPattern(EscapePattern(name), ValuePattern(schema));
    pattern += required.contains(name) ? one : fmt::format("({})?", one);
  }
  return pattern;
}

}  // namespace

std::string EscapePattern(std::string_view text) {
  constexpr std::string_view kSpecial = R"(\^$.|?*+()[]{}/)";
  std::string pattern;
  for (const char c : text) {
    if (kSpecial.find(c) != kSpecial.npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::string CallPattern(const OrderedJson& tools, std::string_view name) {
  std::string calls;
  for (const OrderedJson& tool : tools) {
    const OrderedJson& function = tool["function"];
    const auto& own_name = function["name"].get_ref<const std::string&>();
    if (!name.empty() && name != own_name) continue;
    if (!calls.empty()) calls += '|';
    calls += fmt::format("<function={}>\n{}</function>", EscapePattern(own_name),
                         ParametersPattern(function));
  }
  return fmt::format("\n({})\n", calls);
}

}  // namespace kv8::openai
