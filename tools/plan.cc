// kv8 plan: what a model takes of a machine, and how much context is left room for.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "commands.h"
#include "engine/options.h"
#include "engine_flags.h"
#include "family/checkpoint.h"
#include "family/model_config.h"
#include "output.h"
#include "plan/capacity.h"
#include "plan/measure.h"
#include "plan/quantity.h"
#include "plan/this_machine.h"
#include "plan/weight_formats.h"
#include "plan_report.h"

namespace kv8 {
namespace {

constexpr std::int64_t kDefaultCodeAndGraphs = 768 << 20;

struct PlanOptions {
  std::filesystem::path model, config;
  std::vector<std::filesystem::path> overlays;
  std::string weights = "bf16", table_weights = "bf16";
  std::string devices;                                                 // empty: the CPU
  std::string memory, kv_memory, prefix_cache_memory, kv_host_memory;  // empty: not given
  std::string code_memory, vllm_pool, layout, rates;                   // likewise
  std::string kv_cache_dtype;                                          // empty: both
  EngineOptions engine;
  ShardCounts shards;
  Place table = Place::kAuto, embeddings = Place::kAuto;
  bool measure = false;
  bool json = false;
};

/// What `parse` refuses, the flag's check refuses.
template <class Parse>
CLI::Validator Parsed(Parse parse) {
  return CLI::Validator(
      [parse](const std::string& text) {
        const auto parsed = parse(text);
        return parsed.ok() ? std::string() : parsed.error().what;
      },
      "");
}

CLI::Validator DeviceList() {
  return CLI::Validator(
      [](const std::string& text) {
        if (text == "this") return std::string();
        const auto devices = ParseDevices(text);
        return devices.ok() ? std::string() : devices.error().what + ", or this alone";
      },
      "");
}

/// Of a flag whose check has passed.
std::optional<std::int64_t> Bytes(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return ParseBytes(text).value();
}

// ---- the model

/// A configuration, and where its weights' sizes come from.
struct Subject {
  ModelSpec spec;
  std::unique_ptr<const Checkpoint> checkpoint;  // what the source reads; null with --config
  std::unique_ptr<TensorSource> source;
};

Result<Subject> OpenSubject(const PlanOptions& options) {
  Subject subject;
  if (!options.model.empty()) {
    KV8_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(options.model, options.overlays));
    subject.checkpoint = std::make_unique<const Checkpoint>(std::move(checkpoint));
    subject.spec = subject.checkpoint->config();
    subject.source = std::make_unique<CheckpointSource>(*subject.checkpoint);
    return subject;
  }
  KV8_ASSIGN_OR_RETURN(subject.spec, LoadModelSpecFile(options.config));
  KV8_ASSIGN_OR_RETURN(const Weight experts, ParseWeightFormat(options.weights));
  KV8_ASSIGN_OR_RETURN(const Weight table, ParseTableFormat(options.table_weights));
  const WeightFormats formats{experts, table};
  subject.source = std::make_unique<ShapeSource>(
      [formats](const std::string& tensor) { return formats.Of(tensor); });
  return subject;
}

// ---- the machine

/// How many ranks; all of the devices share each layer unless something else is asked for.
Result<void> PlaceRanks(const PlanOptions& options, PlanRequest& request) {
  request.shards = options.shards;
  if (request.devices.empty()) return {};
  const auto devices = static_cast<int>(request.devices.size());
  if (request.shards.tensor * request.shards.pipeline == devices) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{} devices for {} x {} ranks", devices, request.shards.tensor,
                           request.shards.pipeline),
               "--tensor-parallel-size",
               "give as many devices as --tensor-parallel-size times --pipeline-parallel-size"};
}

Result<PlanRequest> MakeRequest(const PlanOptions& options, const ModelSpec& spec) {
  PlanRequest request{.spec = spec, .options = options.engine};
  request.options.kv_memory = Bytes(options.kv_memory);
  request.options.prefix_cache_memory = Bytes(options.prefix_cache_memory).value_or(0);
  request.options.kv_host_memory = Bytes(options.kv_host_memory).value_or(0);
  request.memory = Bytes(options.memory);
  request.table = options.table;
  request.embeddings = options.embeddings;
  if (options.devices == "this") {
    KV8_ASSIGN_OR_RETURN(LocalMachine machine, ThisMachine());
    request.options.device = machine.kind;
    request.devices = std::move(machine.devices);
    const auto ranks = static_cast<std::size_t>(options.shards.tensor * options.shards.pipeline);
    if (request.devices.size() > ranks) request.devices.resize(ranks);
  } else if (!options.devices.empty()) {
    request.options.device = DeviceKind::kCuda;
    request.devices = ParseDevices(options.devices).value();
    request.options.device_memory =
        std::ranges::min(request.devices, {}, &PlannedDevice::memory).memory;
  }
  if (request.options.device == DeviceKind::kCuda) {
    if (request.memory) request.options.device_memory = request.memory;
    request.code_and_graphs = Bytes(options.code_memory).value_or(kDefaultCodeAndGraphs);
  }
  KV8_RETURN_IF_ERROR(CheckOptions(request.options));
  KV8_RETURN_IF_ERROR(PlaceRanks(options, request));
  if (request.options.speculative_tokens > 0 && !spec.draft) {
    return Error{Code::kInvalidArgument, "speculation needs an MTP head and this model has none",
                 "--speculative-tokens", "leave it out"};
  }
  return request;
}

// ---- the report

std::vector<KvDType> DTypes(const PlanOptions& options) {
  if (!options.kv_cache_dtype.empty()) return {KvDTypeOf(options.kv_cache_dtype)};
  return {KvDType::kFp16, KvDType::kE4M3};
}

void CompareWithVllm(const PlanOptions& options, PlanReport& report) {
  const PlanRequest& request = report.request;
  for (const CapacityPlan& cache : report.caches) {
    if (cache.misfit || cache.dtype == KvDType::kFp32) continue;
    VllmComparison row{.dtype = cache.dtype, .pool = {.blocks = INT64_MAX}};
    row.pool_bytes = Bytes(options.vllm_pool).value_or(PoolWithStates(cache));
    row.kv8_tokens = TokensWithStates(cache, row.pool_bytes);
    const std::int64_t asked = request.options.max_model_len;
    const VllmOptions vllm{.dtype = cache.dtype,
                           .drafts = request.options.speculative_tokens,
                           .prefix_cache = request.options.prefix_cache_memory > 0,
                           .max_model_len = asked > 0 ? asked : request.spec.max_positions};
    for (const StageModel& stage : report.stages) {
      const VllmPool pool = VllmPoolOf(request.spec, stage.model.spec, vllm, row.pool_bytes);
      if (pool.block_bytes > 0 && pool.blocks < row.pool.blocks) row.pool = pool;
    }
    report.vllm.push_back(row);
  }
}

double StepBytes(const PlanReport& report) {
  double bytes = 0;
  const StageModel& stage = report.stages.front();
  for (const PartWork& part : WorkOf(stage.model.spec, stage.modules, {})) bytes += part.bytes;
  return bytes;
}

Result<std::optional<Rates>> FindRates(const PlanOptions& options, const PlanReport& report) {
  if (!options.rates.empty()) return std::optional(ParseRates(options.rates).value());
  if (options.measure) {
    KV8_ASSIGN_OR_RETURN(const Rates rates,
                         MeasureCpu({.threads = ThreadsOf(options.engine),
                                     .cols = report.request.spec.hidden,
                                     .outputs = report.request.spec.moe.expert_dim,
                                     .bytes = static_cast<std::int64_t>(StepBytes(report))}));
    return std::optional(rates);
  }
  const auto& devices = report.request.devices;
  if (devices.empty() || devices.front().rates.read == 0) return std::optional<Rates>();
  Rates slowest = devices.front().rates;
  for (const PlannedDevice& device : devices) {
    slowest.read = std::min(slowest.read, device.rates.read);
    slowest.matrix = std::min(slowest.matrix, device.rates.matrix);
  }
  return slowest.read > 0 ? std::optional(slowest) : std::optional<Rates>();
}

/// Stages of a pipeline follow each other.
SpeedRow Estimate(const PlanReport& report, PassShape pass, bool prompt) {
  SpeedRow row{.prompt = prompt, .context = pass.context, .sequences = pass.sequences};
  if (prompt) pass.context /= 2;  // of a chunk, on average
  for (const StageModel& stage : report.stages) {
    const PassTime time = TimeOf(WorkOf(stage.model.spec, stage.modules, pass), *report.rates);
    row.pass.seconds += time.seconds;
    row.pass.parts.insert(row.pass.parts.end(), time.parts.begin(), time.parts.end());
  }
  row.tokens_per_second = static_cast<double>(pass.rows) / row.pass.seconds;
  return row;
}

void EstimateSpeed(PlanReport& report) {
  const EngineOptions& engine = report.request.options;
  const std::int64_t full =
      engine.max_model_len > 0 ? engine.max_model_len : report.request.spec.max_positions;
  const KvDType dtype = report.caches.front().dtype;
  for (const std::int64_t context : {std::min<std::int64_t>(1024, full), full}) {
    report.speed.push_back(Estimate(report, {.context = context, .dtype = dtype}, false));
    if (engine.max_num_seqs > 1) {
      const std::int64_t n = engine.max_num_seqs;
      report.speed.push_back(Estimate(
          report, {.rows = n, .sequences = n, .context = context, .logit_rows = n, .dtype = dtype},
          false));
    }
    const std::int64_t rows =
        std::min(report.caches.front().stages.front().max_num_batched_tokens, context);
    report.speed.push_back(
        Estimate(report, {.rows = rows, .context = context, .dtype = dtype}, true));
    if (context == full) break;
  }
}

Error TooSmall(const PlanOptions& options, const Misfit& misfit) {
  return Error{
      Code::kResourceExhausted,
      fmt::format("a rank of stage {} needs {} bytes with the cache of one sequence, {} are there; "
                  "most go to {}: {}",
                  misfit.stage, misfit.needed, misfit.budget, misfit.largest, misfit.largest_bytes),
      options.memory.empty() ? "--devices" : "--memory", misfit.remedy};
}

Result<void> Plan(const PlanOptions& options) {
  KV8_ASSIGN_OR_RETURN(const Subject subject, OpenSubject(options));
  PlanReport report;
  report.source = options.model.empty() ? options.config.string() : options.model.string();
  KV8_ASSIGN_OR_RETURN(report.request, MakeRequest(options, subject.spec));
  KV8_ASSIGN_OR_RETURN(report.stages, BindStages(report.request, *subject.source));
  report.not_run_yet = NotRunYet(report.request, report.stages);
  for (const KvDType dtype : DTypes(options)) {
    KV8_ASSIGN_OR_RETURN(CapacityPlan cache, PlanCapacity(report.request, report.stages, dtype));
    report.caches.push_back(std::move(cache));
  }
  const auto fits = [](const CapacityPlan& cache) { return !cache.misfit; };
  if (std::ranges::none_of(report.caches, fits)) {
    return TooSmall(options, *report.caches.back().misfit);
  }
  if (!options.layout.empty()) CompareWithVllm(options, report);
  KV8_ASSIGN_OR_RETURN(report.rates, FindRates(options, report));
  if (report.rates) EstimateSpeed(report);
  return options.json ? WriteJson(PlanJson(report)) : WriteLines(PlanText(report));
}

// ---- flags

void AddModelFlags(CLI::App& app, PlanOptions& options) {
  auto* source = app.add_option_group("model");
  auto* model =
      source->add_option("--model", options.model, "Checkpoint directory, or a materialized one")
          ->check(NotEmpty());
  auto* config =
      source->add_option("--config", options.config, "config.json alone; no weights are needed")
          ->check(NotEmpty());
  source->require_option(1);
  AddOverlayFlag(app, options.overlays)->needs(model);
  app.add_option("--weights", options.weights,
                 "Format of the routed experts with --config: bf16, fp16, fp32, fp8, nvfp4, "
                 "int4-gN (N columns share a scale); all else is BF16")
      ->check(Parsed(ParseWeightFormat))
      ->needs(config)
      ->capture_default_str();
  app.add_option("--table-weights", options.table_weights,
                 "Format of the n-gram table with --config: bf16, fp8, nvfp4")
      ->check(Parsed(ParseTableFormat))
      ->needs(config)
      ->capture_default_str();
}

CLI::Option* AddBytes(CLI::App& app, const char* name, std::string& text, const char* help) {
  return app.add_option(name, text, help)->check(Parsed(ParseBytes));
}

void AddRunFlags(CLI::App& app, PlanOptions& options) {
  EngineOptions& engine = options.engine;
  app.add_option("--kv-cache-dtype", options.kv_cache_dtype,
                 "Element type of the K/V cache; default: fp16 and fp8_e4m3 side by side")
      ->check(OneOf({"fp16", "fp8_e4m3", "fp32", "fp8"}));
  app.add_option("--max-model-len", engine.max_model_len,
                 "Most tokens of prompt and output; default: the model's limit")
      ->check(WholeNumberWithin(1, INT32_MAX));
  app.add_option("--max-num-seqs", engine.max_num_seqs, "Sequences that run at once")
      ->check(WholeNumberWithin(1, 4096))
      ->capture_default_str();
  app.add_option("--speculative-tokens", engine.speculative_tokens,
                 "Tokens that the draft head proposes in each step")
      ->check(WholeNumberWithin(0, 5))
      ->capture_default_str();
  AddBatchedTokensFlag(app, engine.max_num_batched_tokens);
  app.add_option("--threads", engine.threads, "Threads of a CPU; 0: one per hardware thread")
      ->check(WholeNumberWithin(0, 1024))
      ->capture_default_str();
  AddBytes(app, "--kv-memory", options.kv_memory,
           "Bytes for the cache of each rank; default: all that is left of the budget, or "
           "without one what --max-model-len and --max-num-seqs need");
  AddTableCacheFlag(app, engine.table_cache);
  AddBytes(app, "--prefix-cache-memory", options.prefix_cache_memory,
           "Bytes of host memory for states of earlier prompts; default: no prefix cache");
  AddBytes(app, "--kv-host-memory", options.kv_host_memory,
           "Bytes of host memory for pages and states that leave the cache; default: none");
}

void AddMachineFlags(CLI::App& app, PlanOptions& options) {
  AddBytes(app, "--memory", options.memory,
           "Bytes of each device that may be taken, such as 24GB (10^9) or 24GiB (2^30); "
           "default: all that --devices have, else no limit");
  auto* devices = app.add_option("--devices", options.devices,
                                 "GPUs, one per rank: this machine's (this), or a list such as "
                                 "4x24GiB or 2xh200; known: " +
                                     KnownDevices() + "; default: the CPU")
                      ->check(DeviceList());
  app.add_option("--tensor-parallel-size", options.shards.tensor, "Ranks that share each layer")
      ->check(WholeNumberWithin(1, kMaxDevices))
      ->needs(devices)
      ->capture_default_str();
  app.add_option("--pipeline-parallel-size", options.shards.pipeline, "Stages of whole layers")
      ->check(WholeNumberWithin(1, kMaxDevices))
      ->needs(devices)
      ->capture_default_str();
  AddChoice<Place>(app, "--table-memory", options.table,
                   {{"auto", Place::kAuto},
                    {"device", Place::kDevice},
                    {"host", Place::kHost},
                    {"disk", Place::kDisk}},
                   "Where the n-gram table lies; auto: on the device if the cache fits beside it");
  AddChoice<Place>(app, "--embedding-memory", options.embeddings,
                   {{"auto", Place::kAuto}, {"device", Place::kDevice}, {"host", Place::kHost}},
                   "Where the embeddings lie; auto: as for the table");
  AddBytes(app, "--code-memory", options.code_memory,
           "Bytes of each GPU for the driver's context, code and graphs; default: 768MiB, an "
           "estimate")
      ->needs(devices);
}

void AddComparisonFlags(CLI::App& app, PlanOptions& options) {
  auto* layout = app.add_option("--layout", options.layout,
                                "Show beside it what this layout makes of the same bytes: vllm")
                     ->check(OneOf({"vllm"}));
  AddBytes(app, "--vllm-pool", options.vllm_pool,
           "Bytes of vLLM's pool in each rank; default: what cache and states take here")
      ->needs(layout);
  auto* rates =
      app.add_option("--rates", options.rates,
                     "Estimate speed with these rates per second, such as read=900G,matrix=60T; "
                     "default: the data sheet's of a known device, else no estimate")
          ->check(Parsed(ParseRates));
  app.add_flag("--measure", options.measure,
               "Estimate speed with the rates of this machine's CPU, measured in half a second")
      ->excludes(rates)
      ->excludes(app.get_option("--devices"));
}

}  // namespace

CommandRun SetUpPlan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  AddModelFlags(app, *options);
  AddRunFlags(app, *options);
  AddMachineFlags(app, *options);
  AddComparisonFlags(app, *options);
  AddJsonFlag(app, options->json);
  app.final_callback([options, &app] {
    if (options->devices.empty() || options->devices == "this") return;
    const auto devices = std::ssize(ParseDevices(options->devices).value());
    const bool stated =
        app.count("--tensor-parallel-size") + app.count("--pipeline-parallel-size") > 0;
    if (!stated) options->shards.tensor = static_cast<int>(devices);
    const std::ptrdiff_t ranks = std::ptrdiff_t{options->shards.tensor} * options->shards.pipeline;
    if (ranks == devices) return;
    throw CLI::ValidationError(
        "--devices", fmt::format("has {} devices for {} ranks: --tensor-parallel-size {} "
                                 "times --pipeline-parallel-size {}",
                                 devices, ranks, options->shards.tensor, options->shards.pipeline));
  });
  return [options] { return Plan(*options); };
}

}  // namespace kv8
