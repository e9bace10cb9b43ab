#include "jinja/arguments.h"

#include <fmt/format.h>

namespace kv8::jinja {
namespace {

struct Parameter {
  std::string_view name;
  bool optional;
};

std::vector<Parameter> Split(std::string_view parameters) {
  std::vector<Parameter> out;
  while (!parameters.empty()) {
    const std::size_t end = std::min(parameters.find(' '), parameters.size());
    std::string_view name = parameters.substr(0, end);
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
    const bool optional = name.ends_with('?');
    if (optional) name.remove_suffix(1);
    out.push_back({name, optional});
  }
  return out;
}

}  // namespace

const Value* Arguments::Keyword(std::string_view name) const {
  for (const auto& [key, value] : keyword) {
    if (key == name) return &value;
  }
  return nullptr;
}

Result<Bound> Bind(std::string_view function, std::string_view parameters,
                   const Arguments& arguments) {
  const std::vector<Parameter> places = Split(parameters);
  if (arguments.positional.size() > places.size()) {
    return Failure(fmt::format("{}() takes at most {} arguments ({} given)", function,
                               places.size(), arguments.positional.size()));
  }
  Bound bound(places.size(), nullptr);
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.keyword) {
    std::size_t at = 0;
    while (at < places.size() && places[at].name != name) ++at;
    if (at == places.size()) {
      return Failure(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    }
    if (bound[at] != nullptr) {
      return Failure(fmt::format("{}() got multiple values for argument '{}'", function, name));
    }
    bound[at] = &value;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (bound[i] == nullptr && !places[i].optional) {
      return Failure(fmt::format("{}() is missing its argument '{}'", function, places[i].name));
    }
  }
  return bound;
}

Result<std::int64_t> IntOf(const Value* argument, std::int64_t fallback, std::string_view what) {
  if (argument == nullptr) return fallback;
  if (const auto number = argument->AsInt()) return *number;
  if (argument->Is(Kind::kUndefined)) return UndefinedError(*argument);
  if (argument->Is(Kind::kLargeInt)) {
    return Error{Code::kUnsupported, fmt::format("{} does not fit into 64 bits", what), "", ""};
  }
  return Failure(fmt::format("{} must be an int, not '{}'", what, argument->TypeName()));
}

Result<std::string_view> TextOf(const Value* argument, std::string_view fallback,
                                std::string_view what) {
  if (argument == nullptr) return fallback;
  if (argument->Is(Kind::kString)) return std::string_view(argument->text());
  if (argument->Is(Kind::kUndefined)) return UndefinedError(*argument);
  return Failure(fmt::format("{} must be a str, not '{}'", what, argument->TypeName()));
}

}  // namespace kv8::jinja
