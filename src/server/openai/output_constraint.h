// What a request demands of its output, as a constraint on the engine's tokens.
#pragma once

#include <memory>

#include "base/ordered_json.h"
#include "kv8/constraint.h"
#include "kv8/error.h"
#include "server/openai/api_context.h"
#include "server/openai/structured_output.h"
#include "server/openai/tool_choice.h"

namespace kv8::openai {

using ConstraintPtr = std::shared_ptr<const TokenConstraint>;

/// Null for a form that admits anything. Errors: kInvalidArgument for a form that makes no sense,
/// kUnsupported.
Result<ConstraintPtr> ConstrainForm(const ApiContext& context, const OutputForm& form);

/// Whether every call of the answer follows a schema: when calls are demanded, beside a form, or of
/// strict functions.
bool ConstrainsCalls(const OutputForm& form, const ToolChoice& choice, const OrderedJson& tools);

/// The same for an answer of a chat, in which calls may stand in the way. `tools`: null when there
/// are none. `reasoning_open`: the demands are on what follows the reasoning.
Result<ConstraintPtr> ConstrainAnswer(const ApiContext& context, const OutputForm& form,
                                      const ToolChoice& choice, const OrderedJson& tools,
                                      bool reasoning_open);

}  // namespace kv8::openai
