#include "speed/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/checked.h"

namespace kv8 {
namespace {

/// When the last sequence had its first token; nullopt before.
std::optional<double> AllStarted(std::span<const TimedOutput> outputs) {
  double last = 0;
  for (const TimedOutput& output : outputs) {
    if (output.token_seconds.empty()) return std::nullopt;
    last = std::max(last, output.token_seconds.front());
  }
  return last;
}

std::int64_t TokensAfter(const TimedOutput& output, double start) {
  const auto first = std::ranges::upper_bound(output.token_seconds, start);
  return output.token_seconds.end() - first;
}

bool Timed(std::span<const TimedOutput> outputs, std::int64_t tokens) {
  const auto start = AllStarted(outputs);
  return start && std::ranges::all_of(outputs, [&](const TimedOutput& output) {
           return TokensAfter(output, *start) >= tokens;
         });
}

void AddSpeculation(std::span<const TimedOutput> outputs, CellTimes& times) {
  SpeculationStats sum;
  for (const TimedOutput& output : outputs) {
    sum.steps += output.speculation.steps;
    sum.drafted += output.speculation.drafted;
    sum.accepted += output.speculation.accepted;
  }
  if (sum.drafted == 0) return;
  times.acceptance = static_cast<double>(sum.accepted) / static_cast<double>(sum.drafted);
  times.tokens_per_step = 1 + static_cast<double>(sum.accepted) /
                                  static_cast<double>(std::max<std::int64_t>(1, sum.steps));
}

Result<void> Check(std::span<const TimedOutput> outputs, const Cell& cell) {
  for (const TimedOutput& output : outputs) {
    if (output.cached_tokens == 0) continue;
    return Error{Code::kMismatch,
                 fmt::format("a cold prompt of {} tokens had {} of them from a prefix hit",
                             cell.context, output.cached_tokens),
                 "kv8 bench", "use another --seed"};
  }
  if (Timed(outputs, cell.output)) return {};
  return Error{Code::kMismatch,
               fmt::format("a request ended before {} sequences had {} tokens each after the last "
                           "of them began",
                           cell.sequences, cell.output),
               "kv8 bench", "raise --max-num-batched-tokens or lower the number of sequences"};
}

}  // namespace

std::int64_t MostTokens(const Cell& cell, std::int64_t pass, int drafts) {
  const std::int64_t passes = CeilDiv(cell.context * cell.sequences, pass) + cell.sequences;
  return (passes + cell.output) * (1 + drafts) + 1;
}

Result<CellTimes> MeasureCell(SpeedTarget& target, PromptSource& prompts, const Cell& cell,
                              std::int64_t most_tokens) {
  std::vector<TimedRequest> requests(static_cast<std::size_t>(cell.sequences));
  for (TimedRequest& request : requests) {
    request = {.prompt = prompts.Next(cell.context), .max_tokens = most_tokens};
  }
  const auto enough = [&](auto outputs) { return Timed(outputs, cell.output); };
  KV8_ASSIGN_OR_RETURN(const std::vector<TimedOutput> outputs, target.Run(requests, enough));
  KV8_RETURN_IF_ERROR(Check(outputs, cell));
  const double start = *AllStarted(outputs);
  double first = 0;
  double end = 0;
  double generated = 0;
  for (const TimedOutput& output : outputs) {
    first += output.token_seconds.front() / static_cast<double>(cell.sequences);
    end = std::max(end, output.token_seconds.back());
    generated += static_cast<double>(TokensAfter(output, start));
  }
  CellTimes times{
      .prefill_tokens_per_second = static_cast<double>(cell.context * cell.sequences) / start,
      .first_token_seconds = first,
      .decode_tokens_per_second = generated / (end - start)};
  AddSpeculation(outputs, times);
  return times;
}

}  // namespace kv8
