#include "plan_report.h"
#include "plan/memory_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "engine_flags.h"

namespace kv8 {
namespace {

// ---- JSON

Json ModulesJson(const std::vector<ModuleBytes>& modules) {
  Json out = Json::array();
  for (const ModuleBytes& row : modules) {
    out.push_back({{"module", Name(row.module)},
                   {"draft", row.draft},
                   {"format", row.vectors ? "F32 vectors" : Name(row.format)},
                   {"bytes", row.bytes}});
  }
  return out;
}

Json PlacedJson(std::int64_t bytes, Place place) {
  return {{"bytes", bytes}, {"in", Name(place)}};
}

Json StageJson(const StagePlan& plan) {
  return {{"memory", MemoryJson(plan.memory)},
          {"max_num_batched_tokens", plan.max_num_batched_tokens},
          {"embeddings", PlacedJson(plan.embeddings, plan.embeddings_in)},
          {"ngram_table", PlacedJson(plan.ngram_table, plan.table_in)},
          {"mapped_weights", plan.mapped},
          {"code_and_graphs", plan.code_and_graphs},
          {"on_device", plan.on_device},
          {"on_host", plan.on_host},
          {"on_disk", plan.on_disk},
          {"budget", plan.budget ? Json(*plan.budget) : Json()}};
}

Json MisfitJson(const std::optional<Misfit>& misfit) {
  if (!misfit) return Json();
  return {{"stage", misfit->stage},   {"needed", misfit->needed},
          {"budget", misfit->budget}, {"largest_owner", misfit->largest},
          {"remedy", misfit->remedy}, {"largest_bytes", misfit->largest_bytes}};
}

Json CacheJson(const CapacityPlan& cache) {
  Json stages = Json::array();
  for (const StagePlan& stage : cache.stages) stages.push_back(StageJson(stage));
  return {{"kv_cache_dtype", Name(cache.dtype)},
          {"fits", !cache.misfit},
          {"misfit", MisfitJson(cache.misfit)},
          {"pages", cache.pages},
          {"tokens", cache.tokens},
          {"sequences", cache.sequences},
          {"stages", std::move(stages)}};
}

Json VllmJson(const VllmComparison& row) {
  return {{"kv_cache_dtype", Name(row.dtype)},
          {"pool_bytes", row.pool_bytes},
          {"block_tokens", row.pool.block_tokens},
          {"block_bytes", row.pool.block_bytes},
          {"block_ids", row.pool.blocks},
          {"fixed_blocks", row.pool.fixed_blocks},
          {"tokens", row.pool.tokens},
          {"kv8_tokens", row.kv8_tokens}};
}

Json SpeedJson(const PlanReport& report) {
  if (!report.rates) return Json();
  Json rows = Json::array();
  for (const SpeedRow& row : report.speed) {
    Json parts = Json::object();
    for (const PartTime& part : row.pass.parts) parts[part.part] = part.seconds;
    rows.push_back({{"work", row.prompt ? "prompt" : "decode"},
                    {"context", row.context},
                    {"sequences", row.sequences},
                    {"tokens_per_second", row.tokens_per_second},
                    {"seconds_by_part", std::move(parts)}});
  }
  return {{"rates",
           {{"read", report.rates->read},
            {"copy", report.rates->copy},
            {"matrix", report.rates->matrix},
            {"dispatch", report.rates->dispatch}}},
          {"estimates", std::move(rows)}};
}

// ---- text

/// "1,234,567".
std::string Digits(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t i = std::ssize(text) - 3; i > (number < 0 ? 1 : 0); i -= 3) {
    text.insert(static_cast<std::size_t>(i), ",");
  }
  return text;
}

std::string Row(std::string_view name, const std::vector<std::string>& values) {
  std::string line = fmt::format("{:<40}", name);
  for (const std::string& value : values) line += fmt::format("{:>20}", value);
  return line + "\n";
}

std::string HeadText(const PlanReport& report) {
  const PlanRequest& request = report.request;
  const EngineOptions& options = request.options;
  std::string out =
      fmt::format("model: {}, {} layers\n", report.source, request.spec.layer_count());
  out += fmt::format(
      "asked: up to {} tokens, {} sequences at once, {} drafts a step, {} prompt tokens a pass\n",
      Digits(options.max_model_len > 0 ? options.max_model_len : request.spec.max_positions),
      options.max_num_seqs, options.speculative_tokens,
      Digits(report.caches.front().stages.front().max_num_batched_tokens));
  out +=
      fmt::format("ranks: {} stages of {}, on {}\n", request.shards.pipeline, request.shards.tensor,
                  options.device == DeviceKind::kCuda ? "GPUs" : "the CPU");
  if (!report.not_run_yet.empty()) {
    out += "sizes alone, this kv8 does not run it yet:\n";
    for (const std::string& reason : report.not_run_yet) out += fmt::format("  {}\n", reason);
  }
  return out;
}

std::string ModulesText(const StageModel& stage) {
  std::string out = Row("weights of one rank", {"format", "bytes"});
  for (const ModuleBytes& row : stage.modules) {
    out += Row(fmt::format("  {}{}", row.draft ? "draft " : "", Name(row.module)),
               {row.vectors ? "F32 vectors" : Name(row.format), Digits(row.bytes)});
  }
  return out;
}

struct Owner {
  const char* name;
  std::function<std::int64_t(const StagePlan&)> bytes;
};

/// In the order of a machine's memory: device, then host.
std::vector<Owner> Owners() {
  using S = const StagePlan&;
  const auto at = [](Place here, Place place, std::int64_t bytes) {
    return here == place ? bytes : 0;
  };
  return {
      {"weights", [](S s) { return s.memory.weights; }},
      {"weights, as files are mapped", [](S s) { return s.mapped; }},
      {"n-gram table",
       [=](S s) { return s.mapped > 0 ? 0 : at(s.table_in, Place::kDevice, s.ngram_table); }},
      {"embeddings",
       [=](S s) { return s.mapped > 0 ? 0 : at(s.embeddings_in, Place::kDevice, s.embeddings); }},
      {"n-gram rows that are kept", [](S s) { return s.mapped > 0 ? s.memory.tables : 0; }},
      {"K/V", [](S s) { return s.memory.kv; }},
      {"index keys", [](S s) { return s.memory.index; }},
      {"draft K/V", [](S s) { return s.memory.draft_kv; }},
      {"draft index keys", [](S s) { return s.memory.draft_index; }},
      {"recurrent states", [](S s) { return s.memory.states; }},
      {"states for rollback", [](S s) { return s.memory.rollback; }},
      {"workspace", [](S s) { return s.memory.activations + s.memory.scratch; }},
      {"code and graphs (estimate)", [](S s) { return s.code_and_graphs; }},
      {"sum on the device", [](S s) { return s.on_device; }},
      {"budget", [](S s) { return s.budget.value_or(0); }},
      {"host: n-gram table", [=](S s) { return at(s.table_in, Place::kHost, s.ngram_table); }},
      {"host: embeddings", [=](S s) { return at(s.embeddings_in, Place::kHost, s.embeddings); }},
      {"host: snapshots, at most", [](S s) { return s.memory.snapshots; }},
      {"host: preempted sequences, at most", [](S s) { return s.memory.preempted; }},
      {"host: K/V tier, at most", [](S s) { return s.memory.kv_host; }},
      {"disk: n-gram table", [=](S s) { return at(s.table_in, Place::kDisk, s.ngram_table); }}};
}

std::string StageText(const PlanReport& report, std::size_t stage) {
  std::vector<std::string> head;
  for (const CapacityPlan& cache : report.caches) head.emplace_back(Name(cache.dtype));
  const std::string name =
      report.stages.size() == 1 ? "memory of one rank" : fmt::format("rank of stage {}", stage);
  std::string out = Row(name, head);
  for (const Owner& owner : Owners()) {
    std::vector<std::string> values;
    bool any = false;
    for (const CapacityPlan& cache : report.caches) {
      const std::int64_t bytes = stage < cache.stages.size() ? owner.bytes(cache.stages[stage]) : 0;
      any = any || bytes != 0;
      values.push_back(cache.misfit ? "-" : Digits(bytes));
    }
    if (any) out += Row(fmt::format("  {}", owner.name), values);
  }
  return out;
}

std::string CapacityText(const PlanReport& report) {
  std::vector<std::string> tokens, sequences;
  std::string misfits;
  for (const CapacityPlan& cache : report.caches) {
    tokens.push_back(cache.misfit ? "does not fit" : Digits(cache.tokens));
    sequences.push_back(cache.misfit ? "-" : Digits(cache.sequences));
    if (!cache.misfit) continue;
    const Misfit& m = *cache.misfit;
    misfits += fmt::format(
        "  {}: {} bytes are needed in stage {}, {} are there; most go to {}: {}\n"
        "    try: {}\n",
        Name(cache.dtype), Digits(m.needed), m.stage, Digits(m.budget), m.largest,
        Digits(m.largest_bytes), m.remedy);
  }
  return Row("tokens in the cache", tokens) + Row("sequences of full length", sequences) + misfits;
}

std::string VllmText(const PlanReport& report) {
  if (report.vllm.empty()) return "";
  std::vector<std::string> head, bytes, block, ids, tokens, own;
  for (const VllmComparison& row : report.vllm) {
    head.emplace_back(Name(row.dtype));
    bytes.push_back(Digits(row.pool_bytes));
    block.push_back(Digits(row.pool.block_tokens));
    ids.push_back(Digits(row.pool.blocks));
    tokens.push_back(Digits(row.pool.tokens));
    own.push_back(Digits(row.kv8_tokens));
  }
  return Row("vLLM's layout", head) + Row("  bytes of a rank's pool", bytes) +
         Row("  tokens in a block", block) + Row("  block ids", ids) + Row("  tokens", tokens) +
         Row("  kv8's tokens in the same bytes", own);
}

std::string SpeedText(const PlanReport& report) {
  if (!report.rates) return "";
  std::string out = fmt::format("speed at {:.1f} GB/s read, {:.1f} G multiply-adds/s\n",
                                report.rates->read / 1e9, report.rates->matrix / 1e9);
  for (const SpeedRow& row : report.speed) {
    out +=
        fmt::format("  {} of {} at {} tokens: {:.0f} tokens/s\n", row.prompt ? "prompts" : "decode",
                    row.sequences, Digits(row.context), row.tokens_per_second);
    std::vector<PartTime> parts = row.pass.parts;
    std::ranges::sort(parts, std::greater(), &PartTime::seconds);
    if (parts.size() > 4) parts.resize(4);
    for (const PartTime& part : parts) {
      out += fmt::format("    {:<30}{:>6.1f}%\n", part.part, 100 * part.seconds / row.pass.seconds);
    }
  }
  return out;
}

}  // namespace

Json PlanJson(const PlanReport& report) {
  const EngineOptions& options = report.request.options;
  Json stages = Json::array(), caches = Json::array(), vllm = Json::array(),
       devices = Json::array();
  for (const StageModel& stage : report.stages) {
    stages.push_back({{"first_layer", stage.shard.layers.begin},
                      {"layers", stage.shard.layers.count},
                      {"weights", ModulesJson(stage.modules)}});
  }
  for (const CapacityPlan& cache : report.caches) caches.push_back(CacheJson(cache));
  for (const VllmComparison& row : report.vllm) vllm.push_back(VllmJson(row));
  for (const PlannedDevice& device : report.request.devices) {
    devices.push_back({{"name", device.name}, {"memory", device.memory}});
  }
  return {{"model", report.source},
          {"device", options.device == DeviceKind::kCuda ? "cuda" : "cpu"},
          {"devices", std::move(devices)},
          {"max_model_len",
           options.max_model_len > 0 ? options.max_model_len : report.request.spec.max_positions},
          {"max_num_seqs", options.max_num_seqs},
          {"speculative_tokens", options.speculative_tokens},
          {"tensor_parallel_size", report.request.shards.tensor},
          {"pipeline_parallel_size", report.request.shards.pipeline},
          {"not_run_yet", report.not_run_yet},
          {"stages", std::move(stages)},
          {"caches", std::move(caches)},
          {"vllm", std::move(vllm)},
          {"speed", SpeedJson(report)}};
}

std::string PlanText(const PlanReport& report) {
  std::string out = HeadText(report);
  for (std::size_t i = 0; i < report.stages.size(); ++i) {
    out += ModulesText(report.stages[i]) + StageText(report, i);
  }
  return out + CapacityText(report) + VllmText(report) + SpeedText(report);
}

}  // namespace kv8
