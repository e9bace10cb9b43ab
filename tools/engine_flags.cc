#include "engine_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "command.h"
#include "flag_checks.h"
#include "hash_progress.h"

namespace kv8 {
namespace {

struct NamedDType {
  const char* name;
  KvDType dtype;
};

// The first name of a type is the one that is printed; `fp8` is what other servers call it too.
constexpr std::array<NamedDType, 4> kDTypes = {{{"fp16", KvDType::kFp16},
                                                {"fp8_e4m3", KvDType::kE4M3},
                                                {"fp32", KvDType::kFp32},
                                                {"fp8", KvDType::kE4M3}}};

/// Values that an E4M3 cache clipped at its largest code or stored as 0, all layers, K and V.
struct Loss {
  std::uint64_t saturated = 0;
  std::uint64_t flushed = 0;
};

Loss LossOf(const KvCacheInfo& info) {
  Loss loss;
  for (const KvCacheInfo::Layer& layer : info.layers) {
    loss.saturated += layer.saturated_k + layer.saturated_v;
    loss.flushed += layer.flushed_k + layer.flushed_v;
  }
  return loss;
}

}  // namespace

void AddDeviceFlags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.name,
                 "Where the model runs: cpu or cuda, the first NVIDIA GPU that is visible")
      ->check(OneOf({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option(
         "--backend", flags.backend,
         "Implementation of the ops: simd (default) or reference on the CPU; on a GPU native "
         "(default), precise, whose products take activations as FP32 and not as FP16, or sm70, "
         "the V100's code, precise too")
      ->check(OneOf({"simd", "reference", "native", "precise", "sm70"}));
  app.add_option("--threads", flags.threads, "Threads; 0: one per hardware thread")
      ->check(WholeNumberWithin(0, 1024))
      ->capture_default_str();
}

void NoteBinding(WeightsBinding weights, const std::vector<std::string>& accepted_lineage,
                 const NoteSink& note) {
  if (weights == WeightsBinding::kTrusted) {
    note(
        "the weights were not compared with those that the scales were measured on "
        "(--trust-weights)");
  }
  if (weights == WeightsBinding::kUnbound) {
    note("the scales do not state which weights they were measured on, so that was not checked");
  }
  if (!accepted_lineage.empty()) {
    note(
        fmt::format("the scales were measured on another checkpoint (--accept-lineage); it "
                    "differs in: {}",
                    fmt::join(accepted_lineage, ", ")));
  }
}

void AddBatchedTokensFlag(CLI::App& app, std::int64_t& tokens) {
  app.add_option(
         "--max-num-batched-tokens", tokens,
         "Prompt tokens of a pass at most, a multiple of 64; default: 512 on the CPU, on a GPU "
         "8192 or what a sixteenth of its memory has room for")
      ->check(WholeNumberWithin(64, 32768));
}

void AddLineageFlags(CLI::App& app, bool& accept_lineage, bool& trust_weights) {
  app.add_flag("--accept-lineage", accept_lineage,
               "Use scales that were measured on another checkpoint, such as this one before its "
               "fine-tuning; the output says in what the two differ");
  app.add_flag("--trust-weights", trust_weights,
               "Do not read all weights once to compare them with those that the scales were "
               "measured on; the output says so");
}

CLI::Option* AddOverlayFlag(CLI::App& app, std::vector<std::filesystem::path>& overlays) {
  return app
      .add_option("--overlay", overlays,
                  "Directory whose tensors replace the checkpoint's, such as experts or a draft "
                  "head of another quantisation; may be given several times, the last one wins")
      ->allow_extra_args(false)
      ->check(NotEmpty());
}

void AddTierFlags(CLI::App& app, std::int64_t& host_memory, std::filesystem::path& disk,
                  std::int64_t& disk_quota) {
  app.add_option("--kv-host-memory", host_memory,
                 "Bytes of host memory for pages and states that leave the cache; 0: none")
      ->check(WholeNumberWithin(0, INT64_MAX))
      ->capture_default_str();
  app.add_option("--kv-disk", disk,
                 "Folder for what makes room in --kv-host-memory, and for all of it at the end; a "
                 "server started anew goes on from there")
      ->check(NotEmpty());
  app.add_option("--kv-disk-quota", disk_quota, "Bytes of files in --kv-disk")
      ->check(WholeNumberWithin(1, INT64_MAX));
}

void AddTableCacheFlag(CLI::App& app, std::optional<std::int64_t>& bytes) {
  app.add_option(
         "--table-cache", bytes,
         "Bytes of n-gram rows to keep of those read from the files when a step needs them; "
         "0: use the files where they are mapped; default: 256 MiB for tables larger than "
         "half of this machine's memory, else 0; on the CPU")
      ->check(WholeNumberWithin(0, INT64_MAX));
}

void AddEngineFlags(CLI::App& app, EngineFlags& flags, const std::string& default_length) {
  app.add_option("--model", flags.model, "Checkpoint directory, or a materialized one")
      ->required()
      ->check(NotEmpty());
  AddOverlayFlag(app, flags.overlays);
  app.add_option("--scale-pack", flags.scale_pack,
                 "Scale pack directory, used with --kv-cache-dtype fp8_e4m3")
      ->check(NotEmpty());
  app.add_option("--kv-cache-dtype", flags.kv_cache_dtype, "Element type of the K/V cache")
      ->check(OneOf({"fp16", "fp8_e4m3", "fp32", "fp8"}))
      ->capture_default_str();
  app.add_option("--max-model-len", flags.max_model_len,
                 "Most tokens of prompt and output; default: " + default_length)
      ->check(WholeNumberWithin(1, INT32_MAX));
  app.add_option("--kv-memory", flags.kv_memory,
                 "Bytes for the cache; default: what --max-model-len needs")
      ->check(WholeNumberWithin(1, INT64_MAX));
  AddBatchedTokensFlag(app, flags.max_num_batched_tokens);
  AddDeviceFlags(app, flags.device);
  app.add_option("--device-memory", flags.device_memory,
                 "Bytes of the GPU's memory to take at most; default: all that is free")
      ->check(WholeNumberWithin(1, INT64_MAX));
  AddTableCacheFlag(app, flags.table_cache);
  AddLineageFlags(app, flags.accept_lineage, flags.trust_weights);
}

Result<std::unique_ptr<Engine>> OpenEngine(const EngineFlags& flags, std::int64_t needed_tokens,
                                           std::shared_ptr<const Tokenizer> tokenizer,
                                           const NoteSink& note) {
  EngineOptions options;
  options.model = flags.model;
  options.overlays = flags.overlays;
  options.tokenizer = std::move(tokenizer);
  if (!flags.scale_pack.empty()) options.scale_pack = flags.scale_pack;
  options.kv_dtype = KvDTypeOf(flags.kv_cache_dtype);
  options.speculative_tokens = flags.speculative_tokens;
  options.max_model_len = flags.max_model_len > 0 ? flags.max_model_len : needed_tokens;
  options.kv_memory = flags.kv_memory;
  options.device_memory = flags.device_memory;
  options.table_cache = flags.table_cache;
  options.max_num_seqs = flags.max_num_seqs;
  options.max_num_batched_tokens = flags.max_num_batched_tokens;
  options.prefix_cache_memory = flags.prefix_cache_memory;
  options.kv_host_memory = flags.kv_host_memory;
  options.kv_disk = flags.kv_disk;
  options.kv_disk_quota = flags.kv_disk_quota;
  options.cache_generated = flags.cache_generated;
  options.device = flags.device.kind();
  options.threads = flags.device.threads;
  options.backend = flags.device.backend;
  options.accept_lineage = flags.accept_lineage;
  options.trust_weights = flags.trust_weights;
  options.hash_progress = ShowHashing(note);
  KV8_ASSIGN_OR_RETURN(auto engine, Engine::Create(options));
  const KvCacheInfo cache = engine->kv_cache();
  NoteBinding(cache.weights_binding, cache.accepted_lineage, note);
  if (const auto table = engine->statistics().ngram_table; !table.refusal.empty()) {
    note(fmt::format("{}; n-gram rows are read by pread", table.refusal));
  }
  return engine;
}

Json KvCacheJson(const KvCacheInfo& info) {
  Json layers = Json::array();
  for (const KvCacheInfo::Layer& layer : info.layers) {
    layers.push_back({{"layer", layer.layer},
                      {"draft", layer.draft},
                      {"saturated_k", layer.saturated_k},
                      {"saturated_v", layer.saturated_v},
                      {"flushed_k", layer.flushed_k},
                      {"flushed_v", layer.flushed_v}});
  }
  return {{"dtype", Name(info.dtype)},
          {"page_tokens", info.page_tokens},
          {"bytes_per_token", info.bytes_per_token},
          {"pages", info.pages},
          {"bytes", info.bytes},
          {"index_bytes", info.index_bytes},
          {"state_bytes", info.state_bytes},
          {"scale_pack_id", info.scale_pack_id.empty() ? Json() : Json(info.scale_pack_id)},
          {"weights", Name(info.weights_binding)},
          {"accepted_lineage", info.accepted_lineage},
          {"saturated", LossOf(info).saturated},
          {"flushed", LossOf(info).flushed},
          {"layers", std::move(layers)}};
}

Json NgramTableJson(const NgramTableStatistics& table) {
  return {{"access", Name(table.access)},
          {"rows", table.rows},
          {"cached_rows", table.cached_rows},
          {"read_rows", table.read_rows}};
}

std::string LossText(const KvCacheInfo& info) {
  const Loss loss = LossOf(info);
  return fmt::format("{} values clipped, {} stored as 0", loss.saturated, loss.flushed);
}

KvDType KvDTypeOf(const std::string& name) {
  const auto* entry = std::find_if(kDTypes.begin(), kDTypes.end(),
                                   [&name](const NamedDType& named) { return named.name == name; });
  assert(entry != kDTypes.end());
  return entry->dtype;
}

}  // namespace kv8
