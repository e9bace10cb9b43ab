// JSON schemas as grammars.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/ordered_json.h"
#include "grammar/program.h"
#include "kv8/error.h"

namespace kv8 {

inline constexpr std::size_t kMaxSchemaBytes = std::size_t{256} << 10;

/// The JSON texts that satisfy `schema`, in a form that docs/guide/structured-output.md describes:
/// declared properties in their order, no others unless `additionalProperties` says so. Every text
/// of the grammar satisfies the schema (where it has `oneOf`, some branch of it).
/// Errors, naming the place in the schema: kUnsupported for what cannot be honoured; kCorrupt for
/// what is no schema; kInvalidArgument when no text satisfies it; kResourceExhausted above a limit.
Result<Program> CompileJsonSchema(const OrderedJson& schema);

/// Any JSON object.
Result<Program> CompileJsonObject();

/// The texts that an expression matches as a whole. Errors: those of ParseRegex and
/// ProgramBuilder::Finish.
Result<Program> CompileRegex(std::string_view pattern);

}  // namespace kv8
