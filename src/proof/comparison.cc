#include "proof/comparison.h"

#include <algorithm>

#include "proof/diagnostics.h"
#include "proof/verdicts.h"

namespace kv8 {
namespace {

std::int64_t Sum(const std::vector<std::int64_t>& values) {
  std::int64_t sum = 0;
  for (const std::int64_t value : values) sum += value;
  return sum;
}

/// A against itself: whatever differs is noise.
void CompareNoise(const ArmResults& a, const ArmResults& again, Figures& figures) {
  if (a.scores && again.scores) {
    double different = 0;
    for (std::size_t i = 0; i < a.scores->texts.size(); ++i) {
      const TextScore& first = a.scores->texts[i];
      const TextScore& second = again.scores->texts[i];
      different += first.nll_bits == second.nll_bits && first.argmax == second.argmax ? 0 : 1;
    }
    figures["noise.scores_different"] = different;
  }
  if (a.outputs && again.outputs) {
    double different = 0;
    for (std::size_t i = 0; i < a.outputs->items.size(); ++i) {
      different += a.outputs->items[i].ids == again.outputs->items[i].ids ? 0 : 1;
    }
    figures["noise.outputs_different"] = different;
  }
}

void JudgeCost(const std::vector<EvaluationItem>& items, const ArmScores& a, const ArmScores& b,
               std::uint64_t seed, Comparison& to) {
  std::vector<RatioPair> pairs;
  std::size_t text = 0;
  for (const EvaluationItem& item : items) {
    if (!item.IsText()) continue;
    const auto tokens = static_cast<double>(item.ids.size() - 1);
    pairs.push_back({a.texts[text].nll, tokens, b.texts[text].nll, tokens});
    ++text;
  }
  if (pairs.empty()) return;
  to.verdicts.push_back(JudgeRatio("nll", "cost of a token, nats (teacher forcing)", pairs,
                                   /*higher_is_better=*/false, seed));
}

using IsPart = bool (*)(const EvaluationItem&);

void JudgeAnswers(const std::vector<EvaluationItem>& items, const ArmOutputs& a,
                  const ArmOutputs& b, Comparison& to) {
  struct Task {
    const char* name;
    const char* what;
    IsPart part;
    bool ItemOutput::*right;
  };
  const Task tasks[] = {
      {"retrieval", "facts found in a context",
       [](const EvaluationItem& item) { return item.depth && !item.tool; }, &ItemOutput::right},
      {"tool_names", "tools chosen", [](const EvaluationItem& item) { return bool(item.tool); },
       &ItemOutput::right_tool},
      {"tool_calls", "tools called, name and arguments",
       [](const EvaluationItem& item) { return bool(item.tool); }, &ItemOutput::right},
      {"answers", "other questions answered",
       [](const EvaluationItem& item) { return item.answer && !item.tool && !item.depth; },
       &ItemOutput::right}};
  for (const Task& task : tasks) {
    std::vector<RightPair> pairs;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (task.part(items[i])) pairs.push_back({a.items[i].*task.right, b.items[i].*task.right});
    }
    if (!pairs.empty()) to.verdicts.push_back(JudgeRight(task.name, task.what, pairs));
  }
}

void JudgeAcceptance(const ArmOutputs& a, const ArmOutputs& b, std::uint64_t seed, Comparison& to) {
  if (!a.Drafted() || !b.Drafted()) return;
  std::vector<RatioPair> pairs;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    const ItemOutput& of_a = a.items[i];
    const ItemOutput& of_b = b.items[i];
    pairs.push_back({.a = static_cast<double>(Sum(of_a.accepted_at)),
                     .a_count = static_cast<double>(Sum(of_a.drafted_at)),
                     .b = static_cast<double>(Sum(of_b.accepted_at)),
                     .b_count = static_cast<double>(Sum(of_b.drafted_at))});
  }
  to.verdicts.push_back(
      JudgeRatio("acceptance", "drafted tokens accepted", pairs, /*higher_is_better=*/true, seed));
}

/// First difference of two outputs; their length when there is none.
std::size_t FirstDifference(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

void CompareOutputs(const ArmOutputs& a, const ArmOutputs& b, Comparison& to) {
  Json first = Json::array();
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    const auto& of_a = a.items[i].ids;
    const auto& of_b = b.items[i].ids;
    if (of_a != of_b) first.push_back(FirstDifference(of_a, of_b));
  }
  const auto outputs = static_cast<double>(a.items.size());
  if (outputs > 0) {
    to.figures["greedy.identical_share"] = 1 - static_cast<double>(first.size()) / outputs;
  }
  to.diagnostics["greedy"] = {{"outputs", a.items.size()},
                              {"identical", a.items.size() - first.size()},
                              {"first_differences", std::move(first)}};
}

void AddClipped(const ArmResults& arm, const char* name, Figures& figures) {
  std::uint64_t clipped = 0;
  std::uint64_t tokens = 0;
  for (const CacheLosses* losses :
       {arm.scores ? &arm.scores->losses : nullptr, arm.outputs ? &arm.outputs->losses : nullptr}) {
    if (losses == nullptr) continue;
    tokens += losses->tokens;
    for (const auto& layer : losses->layers) clipped += layer.saturated_k + layer.saturated_v;
  }
  if (tokens == 0) return;  // of a server, or of an arm that did not run
  const std::string prefix = std::string("clipped.") + name;
  figures[prefix + "_values"] = static_cast<double>(clipped);
  figures[prefix + "_per_token"] = static_cast<double>(clipped) / static_cast<double>(tokens);
}

void AddSchedule(const ArmResults& arm, const std::string& name, Figures& figures) {
  if (!arm.schedule) return;
  figures["schedule." + name + "_different"] =
      static_cast<double>(arm.schedule->batched + arm.schedule->hit);
  figures["schedule." + name + "_prompts"] = static_cast<double>(arm.schedule->prompts);
  figures["schedule." + name + "_hits"] = static_cast<double>(arm.schedule->hits);
}

}  // namespace

Comparison Compare(const std::vector<EvaluationItem>& items, const ArmResults& a,
                   const ArmResults& again, const ArmResults& b, std::uint64_t seed) {
  Comparison result;
  CompareNoise(a, again, result.figures);
  AddSchedule(a, "a", result.figures);
  AddSchedule(b, "b", result.figures);
  AddClipped(a, "a", result.figures);
  AddClipped(b, "b", result.figures);
  if (a.scores && b.scores) {
    JudgeCost(items, *a.scores, *b.scores, seed, result);
    AddScoreDiagnostics(items, *a.scores, *b.scores, result.diagnostics);
  }
  if (a.outputs && b.outputs) {
    JudgeAnswers(items, *a.outputs, *b.outputs, result);
    JudgeAcceptance(*a.outputs, *b.outputs, seed, result);
    CompareOutputs(*a.outputs, *b.outputs, result);
    AddOutputDiagnostics(items, *a.outputs, *b.outputs, result.diagnostics);
  }
  for (const Verdict& verdict : result.verdicts) AddFigures(verdict, result.figures);
  result.diagnostics["losses"] = {{"a", LossRows(a)}, {"b", LossRows(b)}};
  return result;
}

}  // namespace kv8
