#include "proof/report_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proof/attention_report.h"
#include "proof/statistics.h"

namespace kv8 {
namespace {

Json Optional(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json VerdictJson(const Verdict& verdict) {
  Json json = {{"name", verdict.name},
               {"what", verdict.what},
               {"test", verdict.test},
               {"outcome", OutcomeText(verdict.outcome)},
               {"pairs", verdict.pairs},
               {"a", verdict.a},
               {"b", verdict.b},
               {"difference", verdict.difference},
               {"smallest_effect", Optional(verdict.smallest_effect)}};
  if (verdict.test == "McNemar") {
    json["lost"] = verdict.lost;
    json["gained"] = verdict.gained;
    json["p"] = Optional(verdict.p);
  } else {
    json["low"] = Optional(verdict.low);
    json["high"] = Optional(verdict.high);
  }
  return json;
}

Json GateJson(const GateResult& result) {
  return {{"name", result.gate.name},
          {"figure", result.gate.figure},
          {"at_most", Optional(result.gate.at_most)},
          {"at_least", Optional(result.gate.at_least)},
          {"value", Optional(result.value)},
          {"passed", result.passed}};
}

Json NotMeasuredJson(const NotMeasured& entry) {
  return {{"arm", entry.arm}, {"measurement", entry.measurement}, {"reason", entry.reason}};
}

Json FailureJson(const ArmFailure& failure) {
  return {{"arm", failure.arm},
          {"measurement", failure.measurement},
          {"where", failure.error.where},
          {"what", failure.error.what},
          {"remedy", failure.error.remedy}};
}

/// What it is, and the memory that it takes; null for one that cannot be planned.
Json ArmJson(const ArmRuns& runs, const ArmSpec& arm, const ArmResults& results) {
  if (arm.server) {
    return {{"kv_cache_dtype", Json()},
            {"scale_pack", Json()},
            {"bytes_per_token", Json()},
            {"server", arm.server->url},
            {"model", results.served_model}};
  }
  Json json = {{"kv_cache_dtype", Name(arm.dtype)},
               {"scale_pack", arm.scale_pack ? Json(arm.scale_pack->string()) : Json()},
               {"bytes_per_token", Json()},
               {"server", Json()}};
  const auto plan = Engine::Plan(runs.OptionsOf(arm));
  if (!plan.ok() || plan->pages == 0) return json;
  json["bytes_per_token"] = (plan->kv + plan->draft_kv) / (plan->pages * kPageTokens);
  json["index_bytes_per_token"] = (plan->index + plan->draft_index) / (plan->pages * kPageTokens);
  return json;
}

/// Of two E4M3 caches; empty for others and for scales that cannot be read.
Json ScalesJson(const VerifyOptions& options, const RunInputs& inputs) {
  for (const ArmSpec* arm : {&options.a, &options.b}) {
    if (arm->server || arm->dtype != KvDType::kE4M3) return {};
  }
  const auto a = ScalesOf(inputs, options, options.a);
  const auto b = ScalesOf(inputs, options, options.b);
  if (!a.ok() || !b.ok()) return {};
  return ScaleRows(inputs.checkpoint->config(), *a, *b);
}

Json OverlapJson(const std::optional<Overlap>& overlap) {
  if (!overlap) return {};
  return {{"shingle_tokens", kShingleTokens},
          {"shingles", overlap->shingles},
          {"shared", overlap->shared},
          {"share", overlap->share()},
          {"categories", overlap->categories}};
}

template <class T, class ToJson>
Json List(const std::vector<T>& items, const ToJson& to_json) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return list;
}

}  // namespace

Json ReportJson(const VerifyOptions& options, const RunInputs& inputs, const ArmRuns& runs,
                double seconds) {
  Comparison found = Compare(inputs.items, runs.a(), runs.again(), runs.b(), options.seed);
  if (runs.attention()) AddAttention(*runs.attention(), found);
  if (Json scales = ScalesJson(options, inputs); !scales.empty()) {
    found.diagnostics["scales"] = std::move(scales);
  }
  const std::vector<GateResult> gates = CheckGates(inputs.gates, found.figures);
  const bool passed = runs.failures().empty() && std::ranges::all_of(gates, &GateResult::passed);
  return {{"kv8_verify", 1},
          {"passed", passed},
          {"gates", List(gates, GateJson)},
          {"verdicts", List(found.verdicts, VerdictJson)},
          {"significance", kSignificance},
          {"power", kPower},
          {"figures", found.figures},
          {"failures", List(runs.failures(), FailureJson)},
          {"not_measured", List(runs.not_measured(), NotMeasuredJson)},
          {"arms",
           {{"a", ArmJson(runs, options.a, runs.a())}, {"b", ArmJson(runs, options.b, runs.b())}}},
          {"overlap", OverlapJson(inputs.overlap)},
          {"diagnostics", std::move(found.diagnostics)},
          {"checkpoint", inputs.lineage},
          {"corpus_sha256", inputs.corpus.sha256},
          {"documents", inputs.items.size()},
          {"seed", options.seed},
          {"seconds", seconds}};
}

std::vector<std::string> FailureLines(const Json& report) {
  std::vector<std::string> lines;
  for (const Json& failure : report["failures"]) {
    lines.push_back(
        fmt::format("{} of {} failed: {}: {}", failure["measurement"].get<std::string>(),
                    failure["arm"].get<std::string>(), failure["where"].get<std::string>(),
                    failure["what"].get<std::string>()));
  }
  for (const Json& gate : report["gates"]) {
    if (gate["passed"].get<bool>()) continue;
    const std::string value = gate["value"].is_null()
                                  ? "was not measured"
                                  : fmt::format("is {:.6g}", gate["value"].get<double>());
    lines.push_back(fmt::format("gate \"{}\": {} {}", gate["name"].get<std::string>(),
                                gate["figure"].get<std::string>(), value));
  }
  return lines;
}

}  // namespace kv8
