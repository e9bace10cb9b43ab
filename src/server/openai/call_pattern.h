// The text of a call of a function as a regular expression.
#pragma once

#include <string>
#include <string_view>

#include "base/ordered_json.h"

namespace kv8::openai {

/// Matches what stands between <tool_call> and </tool_call> in a call of one of `tools` that are
/// named `name`, or of any when it is empty. Parameters come in the order in which they are
/// declared, required ones always; numbers, booleans and lists of strings have their own form, the
/// rest is any text without a closing tag. Nothing may follow a match.
std::string CallPattern(const OrderedJson& tools, std::string_view name);

/// `text` as an expression that matches it.
std::string EscapePattern(std::string_view text);

}  // namespace kv8::openai
