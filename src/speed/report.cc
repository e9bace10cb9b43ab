#include "speed/report.h"

#include <algorithm>
#include <utility>

#include "speed/comparability.h"
#include "speed/spread.h"

namespace kv8 {
namespace {

constexpr const char* kArmNames[] = {"a", "b"};

/// One figure of each repeat.
template <class T, class Get>
std::vector<double> Values(const std::vector<T>& repeats, const Get& get) {
  std::vector<double> values;
  for (const T& repeat : repeats) values.push_back(get(repeat));
  return values;
}

/// Likewise of those repeats that have it.
template <class T, class Get>
Json OptionalMedian(const std::vector<T>& repeats, const Get& get) {
  std::vector<double> values;
  for (const T& repeat : repeats) {
    if (const auto value = get(repeat)) values.push_back(*value);
  }
  return values.empty() ? Json() : Json(Median(std::move(values)));
}

/// B over A, repeat by repeat, as they were measured one after the other.
template <class T, class Get>
Json RatioJson(const std::vector<std::vector<T>>& times, const Get& get) {
  const std::vector<double> a = Values(times[0], get);
  const std::vector<double> b = Values(times[1], get);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(b[i] / a[i]);
  return SpreadJson(ratios);
}

Json CellArmJson(const std::vector<CellTimes>& repeats) {
  const auto spread = [&](double CellTimes::*figure) {
    return SpreadJson(Values(repeats, [figure](const CellTimes& t) { return t.*figure; }));
  };
  return {{"prefill_tokens_per_second", spread(&CellTimes::prefill_tokens_per_second)},
          {"first_token_seconds", spread(&CellTimes::first_token_seconds)},
          {"decode_tokens_per_second", spread(&CellTimes::decode_tokens_per_second)},
          {"tokens_per_step", spread(&CellTimes::tokens_per_step)},
          {"acceptance", OptionalMedian(repeats, [](const CellTimes& t) { return t.acceptance; })}};
}

Json CellJson(const Cell& cell) {
  return {{"context", cell.context}, {"sequences", cell.sequences}};
}

Json CellsJson(const BenchResults& results, bool comparable) {
  Json rows = Json::array();
  for (const auto& result : results.cells) {
    Json row = CellJson(result.cell);
    for (std::size_t arm = 0; arm < result.times.size(); ++arm) {
      row[kArmNames[arm]] = CellArmJson(result.times[arm]);
    }
    if (comparable) {
      row["prefill_b_over_a"] =
          RatioJson(result.times, [](const CellTimes& t) { return t.prefill_tokens_per_second; });
      row["decode_b_over_a"] =
          RatioJson(result.times, [](const CellTimes& t) { return t.decode_tokens_per_second; });
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json SkippedJson(const std::vector<SkippedCell>& skipped) {
  Json rows = Json::array();
  for (const SkippedCell& skip : skipped) {
    Json row = CellJson(skip.cell);
    row["reason"] = skip.reason;
    rows.push_back(std::move(row));
  }
  return rows;
}

Json TurnsJson(const BenchResults& results) {
  Json rows = Json::array();
  for (std::size_t arm = 0; arm < results.conversations.size(); ++arm) {
    const auto& turns = results.conversations[arm];
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const TurnTimes& turn = turns[i];
      rows.push_back({{"arm", kArmNames[arm]},
                      {"turn", i + 1},
                      {"prompt_tokens", turn.prompt_tokens},
                      {"reused", static_cast<double>(turn.cached_tokens) /
                                     static_cast<double>(turn.prompt_tokens)},
                      {"first_token_seconds", SpreadJson(turn.first_token_seconds)}});
    }
  }
  return rows;
}

Json StructuredJson(const BenchResults& results) {
  Json rows = Json::array();
  for (const auto& result : results.structured) {
    for (std::size_t arm = 0; arm < result.times.size(); ++arm) {
      const std::vector<StructuredTimes>& repeats = result.times[arm];
      std::int64_t requests = 0;
      std::int64_t valid = 0;
      for (const StructuredTimes& times : repeats) {
        requests += times.requests;
        valid += times.valid;
      }
      rows.push_back(
          {{"arm", kArmNames[arm]},
           {"sequences", result.sequences},
           {"tokens_per_second",
            SpreadJson(
                Values(repeats, [](const StructuredTimes& t) { return t.tokens_per_second; }))},
           {"acceptance",
            OptionalMedian(repeats, [](const StructuredTimes& t) { return t.acceptance; })},
           {"outputs", requests},
           {"complete", valid}});
    }
  }
  return rows;
}

Json EngineArmJson(const ArmSpec& arm, const BenchResults::Arm& found) {
  Json json = found.facts;
  json["kv_cache_dtype"] = Name(arm.dtype);
  json["scale_pack"] = arm.scale_pack ? Json(arm.scale_pack->string()) : Json();
  json["memory"] = found.memory;
  return json;
}

}  // namespace

Json BenchReport(const BenchOptions& options, const BenchResults& results) {
  Json report = {{"kv8_bench", 1},
                 {"model", options.engine.model.string()},
                 {"prompts", results.prompts},
                 {"output_tokens", options.output},
                 {"repeats", options.repeats},
                 {"seconds", results.seconds},
                 {"differences", Json::array()},
                 {"comparable", Json()}};
  const std::vector<ArmSpec> arms = ArmsOf(options);
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    report["arms"][kArmNames[arm]] = options.servers.empty()
                                         ? EngineArmJson(arms[arm], results.arms[arm])
                                         : results.arms[arm].facts;
  }
  bool comparable = false;
  if (results.arms.size() == 2) {
    report["differences"] = Differences(results.arms[0].facts, results.arms[1].facts);
    comparable = report["differences"].empty();
    report["comparable"] = comparable;
  }
  report["cells"] = CellsJson(results, comparable);
  report["skipped"] = SkippedJson(results.skipped);
  report["conversations"] = TurnsJson(results);
  report["structured"] = StructuredJson(results);
  return report;
}

}  // namespace kv8
