// Calls of functions, as the model writes them, as a grammar.
#pragma once

#include <string_view>

#include "base/ordered_json.h"
#include "grammar/program.h"
#include "kv8/error.h"

namespace kv8 {

/// Which functions' schemas hold.
enum class CallSchemas {
  kAll,
  kStrict,  // of those with "strict": true; calls of others may hold anything
};

/// What stands between <tool_call> and </tool_call> in a call of one of `tools` that are named
/// `name`, or of any when it is empty:
///
///   \n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n
///
/// ToolCallParser reads from it arguments that satisfy the function's schema. Parameters come in
/// the order in which they are declared, required ones always; others follow them only if the
/// schema allows them. Where strings are all that a value can be, but for null, it is the string
/// itself; otherwise it is JSON, strings in quotes. Values hold no text that ends them (see
/// kValueEnds). Errors: those of CompileJsonSchema, with the function's name.
Result<Program> CompileCalls(const OrderedJson& tools, std::string_view name, CallSchemas schemas);

}  // namespace kv8
