// The flags that every subcommand with an engine shares, and the parts of their JSON output.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "kv8/engine.h"
#include "kv8/error.h"
#include "output.h"

namespace kv8 {

/// Where the model runs.
struct DeviceFlags {
  std::string name = "cpu";
  std::string backend;  // empty: the device's default
  int threads = 0;

  DeviceKind kind() const { return name == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu; }
};

/// Declares --device, --backend and --threads.
void AddDeviceFlags(CLI::App& app, DeviceFlags& flags);

struct EngineFlags {
  std::filesystem::path model;
  std::vector<std::filesystem::path> overlays;
  std::filesystem::path scale_pack;  // empty: the checkpoint's own scales, if it has some
  std::string kv_cache_dtype = "fp16";
  DeviceFlags device;
  int speculative_tokens = 0;
  std::int64_t max_model_len = 0;  // 0: what the request needs
  std::optional<std::int64_t> kv_memory;
  std::optional<std::int64_t> device_memory;
  std::optional<std::int64_t> table_cache;
  int max_num_seqs = 1;
  std::int64_t max_num_batched_tokens = 0;  // 0: by the device
  std::int64_t prefix_cache_memory = 0;
  std::int64_t kv_host_memory = 0;
  std::filesystem::path kv_disk;
  std::int64_t kv_disk_quota = 0;
  bool cache_generated = false;
  bool accept_lineage = false;
  bool trust_weights = false;
};

/// Declares --model, --overlay, --scale-pack, --kv-cache-dtype, --max-model-len, --kv-memory,
/// --max-num-batched-tokens, --device-memory, --table-cache and those of AddDeviceFlags and
/// AddLineageFlags. `default_length` says what --max-model-len is when it is not given.
void AddEngineFlags(CLI::App& app, EngineFlags& flags, const std::string& default_length);

/// Declares --table-cache.
void AddTableCacheFlag(CLI::App& app, std::optional<std::int64_t>& bytes);

/// Declares --kv-host-memory, --kv-disk and --kv-disk-quota.
void AddTierFlags(CLI::App& app, std::int64_t& host_memory, std::filesystem::path& disk,
                  std::int64_t& disk_quota);

/// Declares --overlay, which may be given several times.
CLI::Option* AddOverlayFlag(CLI::App& app, std::vector<std::filesystem::path>& overlays);

/// Declares --max-num-batched-tokens.
void AddBatchedTokensFlag(CLI::App& app, std::int64_t& tokens);

/// Declares --accept-lineage and --trust-weights.
void AddLineageFlags(CLI::App& app, bool& accept_lineage, bool& trust_weights);

/// An engine for max_num_seqs sequences of `needed_tokens` (0: the checkpoint's limit), unless
/// --max-model-len says otherwise. Progress of hashing weights, and what was not checked, go to
/// `note`. `tokenizer`: see EngineOptions. Errors: those of Engine::Create.
Result<std::unique_ptr<Engine>> OpenEngine(const EngineFlags& flags, std::int64_t needed_tokens,
                                           std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                                           const NoteSink& note = Note);

/// Says what the scales were not checked for, or what was accepted.
void NoteBinding(WeightsBinding weights, const std::vector<std::string>& accepted_lineage,
                 const NoteSink& note = Note);

/// The `kv_cache` object of the output.
Json KvCacheJson(const KvCacheInfo& info);

/// The `ngram_table` object of the output.
Json NgramTableJson(const NgramTableStatistics& table);

/// What the cache made of the values, for a summary: "0 values clipped, 12 stored as 0".
std::string LossText(const KvCacheInfo& info);

/// The type that a name on the command line stands for; it is one of them.
KvDType KvDTypeOf(const std::string& name);

}  // namespace kv8
