#include "engine_flags.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "flag_checks.h"

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

/// `name` is one of them: ->check lets nothing else by.
KvDType DTypeOf(const std::string& name) {
  const auto* entry = std::find_if(kDTypes.begin(), kDTypes.end(),
                                   [&name](const NamedDType& named) { return named.name == name; });
  assert(entry != kDTypes.end());
  return entry->dtype;
}

}  // namespace

void AddDeviceFlags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.name,
                 "Where the model runs: cpu or cuda, the first NVIDIA GPU that is visible")
      ->check(OneOf({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option(
         "--backend", flags.backend,
         "Implementation of the ops: simd (default) or reference on the CPU, native (default) "
         "or sm70, the V100's code, on a GPU")
      ->check(OneOf({"simd", "reference", "native", "sm70"}));
  app.add_option("--threads", flags.threads, "Threads; 0: one per hardware thread")
      ->check(WholeNumberWithin(0, 1024))
      ->capture_default_str();
}

void AddEngineFlags(CLI::App& app, EngineFlags& flags, const std::string& default_length) {
  app.add_option("--model", flags.model, "Checkpoint directory, or a materialized one")
      ->required()
      ->check(NotEmpty());
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
  AddDeviceFlags(app, flags.device);
}

Result<std::unique_ptr<Engine>> OpenEngine(const EngineFlags& flags, std::int64_t needed_tokens) {
  EngineOptions options;
  options.model = flags.model;
  if (!flags.scale_pack.empty()) options.scale_pack = flags.scale_pack;
  options.kv_dtype = DTypeOf(flags.kv_cache_dtype);
  options.speculative_tokens = flags.speculative_tokens;
  options.max_model_len = flags.max_model_len > 0 ? flags.max_model_len : needed_tokens;
  options.kv_memory = flags.kv_memory;
  options.max_num_seqs = flags.max_num_seqs;
  options.prefix_cache_memory = flags.prefix_cache_memory;
  options.cache_generated = flags.cache_generated;
  options.device = flags.device.kind();
  options.threads = flags.device.threads;
  options.backend = flags.device.backend;
  return Engine::Create(options);
}

Json KvCacheJson(const KvCacheInfo& info) {
  Json layers = Json::array();
  for (const KvCacheInfo::Layer& layer : info.layers) {
    layers.push_back({{"layer", layer.layer},
                      {"draft", layer.draft},
                      {"saturated_k", layer.saturated_k},
                      {"saturated_v", layer.saturated_v}});
  }
  return {{"dtype", KvDTypeName(info.dtype)},
          {"block_tokens", info.block_tokens},
          {"bytes_per_token", info.bytes_per_token},
          {"blocks", info.blocks},
          {"bytes", info.bytes},
          {"index_bytes", info.index_bytes},
          {"state_bytes", info.state_bytes},
          {"scale_pack_id", info.scale_pack_id.empty() ? Json() : Json(info.scale_pack_id)},
          {"saturated", SaturatedValues(info)},
          {"layers", std::move(layers)}};
}

std::uint64_t SaturatedValues(const KvCacheInfo& info) {
  std::uint64_t sum = 0;
  for (const KvCacheInfo::Layer& layer : info.layers) sum += layer.saturated_k + layer.saturated_v;
  return sum;
}

const char* KvDTypeName(KvDType dtype) {
  for (const auto& entry : kDTypes) {
    if (dtype == entry.dtype) return entry.name;
  }
  return "";
}

}  // namespace kv8
