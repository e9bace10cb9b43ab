#include <algorithm>
#include <cctype>
#include <utility>

#include "base/ordered_json.h"
#include "proof/cache_losses.h"
#include "proof/measurements.h"
#include "text/tool_call_parser.h"

namespace kv8 {
namespace {

constexpr std::int64_t kTextPrompt = 1024;
constexpr std::int64_t kTextOutput = 32;
/// Beyond an answer, so that one that goes on wrongly is seen to.
constexpr std::int64_t kBeyondAnswer = 2;

/// The first call of `tool` in a text: its arguments, complete; nullopt when there is none.
struct FoundCall {
  bool named = false;
  std::optional<Json> arguments;
};

FoundCall FindCall(const std::string& text, const std::string& tool) {
  ToolCallParser parser(
      OrderedJson::array({{{"type", "function"}, {"function", {{"name", tool}}}}}));
  std::vector<ToolCallEvent> events = parser.Feed(text);
  for (ToolCallEvent& event : parser.Finish()) events.push_back(std::move(event));
  FoundCall call;
  std::string arguments;
  for (const ToolCallEvent& event : events) {
    if (event.index != 0) continue;
    if (event.kind == ToolCallEvent::Kind::kCallBegin) call.named = event.text == tool;
    if (event.kind == ToolCallEvent::Kind::kArguments) arguments += event.text;
    if (event.kind == ToolCallEvent::Kind::kCallEnd) {
      if (auto json = ParseJson(arguments, "call"); json.ok()) call.arguments = std::move(*json);
    }
  }
  return call;
}

/// A longer number or word is another answer.
bool BeginsWithAnswer(const std::string& text, const std::string& answer) {
  if (!text.starts_with(answer)) return false;
  return text.size() == answer.size() ||
         std::isalnum(static_cast<unsigned char>(text[answer.size()])) == 0;
}

Request RequestFor(const EvaluationItem& item) {
  const auto prompt = PromptOf(item);
  Request request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.max_tokens = OutputTokens(item);
  request.ignore_eos = item.IsText();
  return request;
}

Result<ItemOutput> Continue(Engine& engine, const EvaluationItem& item,
                            const Tokenizer& tokenizer) {
  KV8_ASSIGN_OR_RETURN(Completion completion, engine.Generate(RequestFor(item)));
  ItemOutput output{.ids = std::move(completion.choices[0].token_ids)};
  output.steps = completion.speculation.steps;
  output.drafted_at = std::move(completion.speculation.drafted_at);
  output.accepted_at = std::move(completion.speculation.accepted_at);
  KV8_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(output.ids));
  Judge(item, text, output);
  return output;
}

}  // namespace

void Judge(const EvaluationItem& item, const std::string& text, ItemOutput& output) {
  if (!item.answer) return;
  if (!item.tool) {
    output.right = BeginsWithAnswer(text, *item.answer);
    return;
  }
  const FoundCall wanted = FindCall(*item.answer, *item.tool);
  const FoundCall found = FindCall(text, *item.tool);
  output.right_tool = found.named;
  output.right = found.named && found.arguments && found.arguments == wanted.arguments;
}

bool ArmOutputs::Drafted() const {
  return std::ranges::any_of(items, [](const ItemOutput& item) {
    return std::ranges::any_of(item.drafted_at, [](std::int64_t count) { return count > 0; });
  });
}

std::int64_t OutputTokens(const EvaluationItem& item) {
  return item.IsText() ? kTextOutput : std::ssize(item.answer_ids) + kBeyondAnswer;
}

std::span<const TokenId> PromptOf(const EvaluationItem& item) {
  const std::span<const TokenId> ids(item.ids);
  if (!item.IsText()) return ids;
  const std::int64_t half = std::max<std::int64_t>(1, std::ssize(ids) / 2);
  return ids.first(static_cast<std::size_t>(std::min(kTextPrompt, half)));
}

std::uint64_t OutputTokensOf(const std::vector<EvaluationItem>& items) {
  std::uint64_t tokens = 0;
  for (const EvaluationItem& item : items) {
    tokens += PromptOf(item).size() + static_cast<std::uint64_t>(OutputTokens(item));
  }
  return tokens;
}

Result<ArmOutputs> MeasureOutputs(Engine& engine, const MeasuredCorpus& corpus) {
  ArmOutputs outputs;
  const LossMeter meter(engine);
  for (const EvaluationItem& item : corpus.items) {
    KV8_ASSIGN_OR_RETURN(ItemOutput output, Continue(engine, item, corpus.tokenizer));
    outputs.losses.tokens += PromptOf(item).size() + output.ids.size();
    outputs.items.push_back(std::move(output));
    const auto tokens = PromptOf(item).size() + static_cast<std::size_t>(OutputTokens(item));
    if (!corpus.done(tokens)) return StoppedError();
  }
  outputs.losses.layers = meter.Since();
  return outputs;
}

}  // namespace kv8
