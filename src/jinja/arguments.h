// Arguments of a call, and their places in a native function.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace kv8::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;

  const Value* Keyword(std::string_view name) const;
};

/// Arguments in the order of the parameters; null for one that was left out.
using Bound = std::vector<const Value*>;

/// Places `arguments` by `parameters`, names separated by spaces, optional ones with a "?" behind.
/// Errors: one that is missing, unknown, given twice or too much.
Result<Bound> Bind(std::string_view function, std::string_view parameters,
                   const Arguments& arguments);

// Readers of one bound argument; null gives the fallback. Errors: another type.
Result<std::int64_t> IntOf(const Value* argument, std::int64_t fallback, std::string_view what);
Result<std::string_view> TextOf(const Value* argument, std::string_view fallback,
                                std::string_view what);
inline bool FlagOf(const Value* argument, bool fallback) {
  return argument == nullptr ? fallback : argument->Truthy();
}

}  // namespace kv8::jinja
