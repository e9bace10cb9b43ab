// How one value is shown in a format string, by either of Python's two kinds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace kv8::jinja {

/// How one value is shown: [[fill]align][sign][#][0][width][,][.precision][type].
struct Spec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '='; 0: as its type has it
  char sign = '-';
  bool alternate = false;
  bool comma = false;
  int width = 0;
  int precision = -1;
  char type = 0;
};

/// Takes digits off `text`; nullopt when they say more than the largest width.
std::optional<int> TakeNumber(std::string_view& text);

std::string FormatText(std::string text, const Spec& spec);
Result<std::string> FormatInt(std::int64_t number, const Spec& spec);
/// `value` as the type in `spec` asks. Errors: one of another type.
Result<std::string> FormatNumber(const Value& value, const Spec& spec);

/// Who is answerable for what str() makes of a value.
Author AuthorOf(const Value& value);

}  // namespace kv8::jinja
