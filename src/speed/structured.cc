#include "speed/structured.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace kv8 {
namespace {

// Every part has an end: an output is complete within kRecordTokens, whatever the model says.
constexpr std::string_view kSchema = R"({
  "type": "object",
  "properties": {
    "name": {"type": "string", "maxLength": 24},
    "count": {"type": "integer", "minimum": 0, "maximum": 9999},
    "kind": {"enum": ["lamp", "harbour", "keeper", "letter"]},
    "done": {"type": "boolean"}
  },
  "required": ["name", "count", "kind", "done"],
  "additionalProperties": false
})";

}  // namespace

Result<StructuredTimes> MeasureStructured(SpeedTarget& target, PromptSource& prompts,
                                          std::int64_t sequences) {
  std::vector<TimedRequest> requests(static_cast<std::size_t>(sequences));
  for (TimedRequest& request : requests) {
    request = {.prompt = prompts.Next(kRecordPrompt),
               .max_tokens = kRecordTokens,
               .json_schema = std::string(kSchema)};
  }
  const auto never = [](auto) { return false; };
  KV8_ASSIGN_OR_RETURN(const auto outputs, target.Run(requests, never));
  StructuredTimes times{.requests = sequences};
  double begin = outputs.front().token_seconds.front();
  double end = 0;
  double tokens = 0;
  SpeculationStats sum;
  for (const TimedOutput& output : outputs) {
    begin = std::min(begin, output.token_seconds.front());
    end = std::max(end, output.token_seconds.back());
    tokens += static_cast<double>(output.token_seconds.size());
    times.valid += ParseJson(output.text, "output").ok() ? 1 : 0;
    sum.drafted += output.speculation.drafted;
    sum.accepted += output.speculation.accepted;
  }
  times.tokens_per_second = end > begin ? tokens / (end - begin) : 0;
  if (sum.drafted > 0) {
    times.acceptance = static_cast<double>(sum.accepted) / static_cast<double>(sum.drafted);
  }
  return times;
}

}  // namespace kv8
