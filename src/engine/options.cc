#include "engine/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/checked.h"
#include "device/device.h"
#include "engine/runner.h"

namespace kv8 {
namespace {

// More than any machine runs; bounds what the fixed buffers can grow to.
constexpr int kMaxSeqs = 4096;
constexpr int kMaxThreads = 1024;
constexpr std::int64_t kMaxBatchedTokens = 32768;  // a launch has at most 65,535 rows in all
/// Prompt tokens of a pass beside generated ones: what a user who reads along waits for.
constexpr std::int64_t kBesideDecode = 2048;
constexpr int kMaxSpeculativeTokens = 5;

Result<void> CheckFlag(std::int64_t value, std::int64_t low, std::int64_t high, const char* flag) {
  if (value >= low && value <= high) return {};
  return Error{Code::kInvalidArgument, fmt::format("{} is outside [{}, {}]", value, low, high),
               flag, "use a value in that range"};
}

Result<std::int64_t> ModelLength(std::int64_t asked, const ModelSpec& config) {
  if (asked == 0) return config.max_positions;
  if (asked <= config.max_positions) return asked;
  return Error{Code::kInvalidArgument,
               fmt::format("{} tokens asked for, the checkpoint was made for {}", asked,
                           config.max_positions),
               "max_position_embeddings",
               "shorten the prompt, or lower the most tokens to generate or --max-model-len"};
}

/// The draft head runs; of a pipeline, in the last stage alone.
bool WithDraft(const EngineOptions& options, const ModelSpec& spec) {
  return options.speculative_tokens > 0 && spec.draft;
}

Result<KvCachePlan> PlanCache(const EngineOptions& options, const ModelSpec& spec,
                              std::int64_t max_model_len) {
  const std::int64_t layers = spec.KvLayers(WithDraft(options, spec));
  KvCachePlan plan = KvCachePlan::ForTokens(spec.qsa, options.kv_dtype, layers, max_model_len);
  if (!options.kv_memory) {
    // A prefix hit beside a draft head copies one page, see PrefixTree.
    const bool copies = WithDraft(options, spec) && options.prefix_cache_memory > 0;
    plan.pages = (plan.pages + (copies ? 1 : 0)) * options.max_num_seqs;
    return plan;
  }
  const std::int64_t needed = plan.kv_bytes() + plan.index_bytes();
  if (*options.kv_memory < needed) {
    return Error{Code::kResourceExhausted,
                 fmt::format("{} bytes given, one sequence of {} tokens needs {}",
                             *options.kv_memory, max_model_len, needed),
                 "--kv-memory", "give the cache more memory or lower --max-model-len"};
  }
  // A stage of a pipeline may have no layer with K/V.
  if (layers > 0) plan.pages = *options.kv_memory / plan.page_bytes();
  return plan;
}

/// A verification's rows must fit the window of the n-gram convolution: the states between them
/// follow from that window.
Result<void> CheckDrafts(int drafts, const ModelSpec& spec) {
  const std::optional<PleConfig>& ple = spec.ple;
  if (drafts == 0 || !ple || drafts < ple->conv_rows()) return {};
  return Error{Code::kUnsupported,
               fmt::format("{} drafts per step with an n-gram convolution over {} tokens", drafts,
                           ple->conv_rows()),
               "--speculative-tokens", "use fewer drafts than that"};
}

/// What one point of a prompt keeps: the state, and with a draft head the last row's streams.
std::int64_t SnapshotBytes(const ModelSpec& spec, bool with_draft) {
  const std::int64_t streams =
      with_draft ? spec.stream_width() * static_cast<std::int64_t>(sizeof(float)) : 0;
  return StateLayout::For(spec, with_draft).bytes() + streams;
}

/// Errors: kResourceExhausted for a budget below one unit of regular length.
Result<std::int64_t> HostTierBytes(const EngineOptions& options, const EngineSetup& setup,
                                   const ModelSpec& spec) {
  if (options.kv_host_memory == 0) return 0;
  const ExecutorLimits& limits = setup.executor;
  const std::int64_t unit = UnitLayoutOf(limits.cache, spec, limits.with_draft)
                                .Bytes(std::min(kSnapshotDistance, limits.sequence_pages));
  const std::int64_t padded = unit + 2 * static_cast<std::int64_t>(IoBuffer::kBytes);
  if (options.kv_host_memory >= padded) return options.kv_host_memory;
  return Error{Code::kResourceExhausted,
               fmt::format("{} bytes given, a run of pages with its state takes {}",
                           options.kv_host_memory, padded),
               "--kv-host-memory", "give more, or 0 for no tier in host memory"};
}

/// How many such points are kept at most. Without a prefix cache one, for the choices of a request.
Result<std::int64_t> MaxSnapshots(const EngineOptions& options, const ModelSpec& spec) {
  if (options.prefix_cache_memory == 0) return options.max_num_seqs > 1 ? 1 : 0;
  const std::int64_t bytes = SnapshotBytes(spec, WithDraft(options, spec));
  if (options.prefix_cache_memory >= bytes) return options.prefix_cache_memory / bytes;
  return Error{Code::kResourceExhausted,
               fmt::format("{} bytes given, the state of one sequence takes {}",
                           options.prefix_cache_memory, bytes),
               "--prefix-cache-memory", "give more, or 0 for no prefix cache"};
}

/// What preempted sequences hold at most.
std::int64_t PreemptedBytes(const EngineSetup& setup, const ModelSpec& spec) {
  const ExecutorLimits& limits = setup.executor;
  const std::int64_t pages = limits.sequence_pages * limits.cache.page_bytes();
  const std::int64_t state = StateLayout::For(spec, limits.with_draft).bytes();
  return Scheduler::MaxPreempted(setup.scheduler) * (state + pages);
}

/// What outlives a request.
Result<void> CheckSharing(const EngineOptions& options) {
  if (options.prefix_cache_memory < 0) {
    return Error{Code::kInvalidArgument, fmt::format("{} is negative", options.prefix_cache_memory),
                 "--prefix-cache-memory", "use a number of bytes, or 0 for no prefix cache"};
  }
  if (options.kv_host_memory < 0) {
    return Error{Code::kInvalidArgument, fmt::format("{} is negative", options.kv_host_memory),
                 "--kv-host-memory", "use a number of bytes, or 0 for no tier in host memory"};
  }
  if (options.kv_host_memory > 0 && options.prefix_cache_memory == 0) {
    return Error{Code::kInvalidArgument, "without a prefix cache nothing is looked for",
                 "--kv-host-memory", "give --prefix-cache-memory too"};
  }
  if (!options.kv_disk.empty() && (options.kv_host_memory == 0 || options.kv_disk_quota <= 0)) {
    return Error{Code::kInvalidArgument,
                 "units go to disk and come back through host memory, and need a quota there",
                 "--kv-disk", "give --kv-host-memory and --kv-disk-quota too"};
  }
  if (options.kv_disk.empty() && options.kv_disk_quota != 0) {
    return Error{Code::kInvalidArgument, "a quota without a folder", "--kv-disk-quota",
                 "give --kv-disk too"};
  }
  if (options.cache_generated && options.prefix_cache_memory == 0) {
    return Error{Code::kInvalidArgument, "there is no prefix cache to share pages through",
                 "--cache-generated", "give --prefix-cache-memory too"};
  }
  return {};
}

}  // namespace

int ThreadsOf(const EngineOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Result<void> CheckOptions(const EngineOptions& options) {
  KV8_RETURN_IF_ERROR(
      CheckFlag(options.speculative_tokens, 0, kMaxSpeculativeTokens, "--speculative-tokens"));
  KV8_RETURN_IF_ERROR(CheckFlag(options.max_num_seqs, 1, kMaxSeqs, "--max-num-seqs"));
  KV8_RETURN_IF_ERROR(CheckFlag(options.threads, 0, kMaxThreads, "--threads"));
  if (options.device_memory && options.device != DeviceKind::kCuda) {
    return Error{Code::kInvalidArgument, "the CPU has no memory of its own", "--device-memory",
                 "leave it out, or give --device cuda too"};
  }
  if (options.table_cache && options.device != DeviceKind::kCpu) {
    return Error{Code::kInvalidArgument, "a GPU does not read n-gram rows from the files",
                 "--table-cache", "leave it out, or run with --device cpu"};
  }
  if (options.table_cache.value_or(0) < 0) {
    return Error{Code::kInvalidArgument, fmt::format("{} is negative", *options.table_cache),
                 "--table-cache", "use a number of bytes, or 0 for mapped tables"};
  }
  KV8_RETURN_IF_ERROR(CheckSharing(options));
  if (options.max_model_len < 0) {
    return Error{Code::kInvalidArgument, fmt::format("{} is negative", options.max_model_len),
                 "--max-model-len", "use a positive number, or 0 for the checkpoint's"};
  }
  const std::int64_t batched = options.max_num_batched_tokens;
  constexpr const char* kFlag = "--max-num-batched-tokens";
  if (batched == 0) return {};
  KV8_RETURN_IF_ERROR(CheckFlag(batched, kPageTokens, kMaxBatchedTokens, kFlag));
  if (batched % kPageTokens == 0) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{} is not a multiple of {}", batched, kPageTokens), kFlag,
               "round it to whole pages"};
}

namespace {

/// Every sequence's generated tokens fit beside the prompts.
std::int64_t RowsOf(const EngineOptions& options, std::int64_t batched) {
  return batched +
         static_cast<std::int64_t>(options.max_num_seqs) * (1 + options.speculative_tokens);
}

/// The GPU's memory, as far as it may be used; 0: there is none.
std::int64_t MemoryOf(const EngineOptions& options) {
  if (options.device_memory) return *options.device_memory;
  const auto devices = Device::List();
  return devices.ok() && !devices->empty() ? devices->front().memory_bytes : 0;
}

/// Weights and cache are what the memory is for: the activations of a pass may take a sixteenth.
std::int64_t DefaultBatchedTokens(const EngineOptions& options, const ModelSpec& spec,
                                  const EngineSetup& setup) {
  constexpr std::int64_t kFew = 512, kMany = 8192, kShare = 16;
  if (options.device == DeviceKind::kCpu) return kFew;
  const std::int64_t room = MemoryOf(options) / kShare;
  const std::int64_t longest = CeilDiv(setup.max_model_len, kPageTokens) * kPageTokens;
  std::int64_t batched = std::min(kMany, longest * options.max_num_seqs);
  ExecutorLimits limits = setup.executor;
  const auto takes = [&](std::int64_t rows) {
    limits.max_rows = RowsOf(options, rows);
    return GpuActivationBytes(spec, limits);
  };
  while (batched > kFew && takes(batched) > room) {
    batched = std::max(kFew, batched / 2 / kPageTokens * kPageTokens);
  }
  return batched;
}

}  // namespace

Result<EngineSetup> SetUp(const EngineOptions& options, const ModelSpec& spec) {
  EngineSetup setup;
  KV8_ASSIGN_OR_RETURN(setup.max_model_len, ModelLength(options.max_model_len, spec));
  setup.device = options.device;
  ExecutorLimits& limits = setup.executor;
  KV8_ASSIGN_OR_RETURN(limits.cache, PlanCache(options, spec, setup.max_model_len));
  KV8_RETURN_IF_ERROR(CheckDrafts(options.speculative_tokens, spec));
  limits.sequence_pages = CeilDiv(setup.max_model_len, kPageTokens);
  limits.slots = options.max_num_seqs;
  limits.drafts = options.speculative_tokens;
  limits.backend = options.backend;
  limits.device_memory = options.device_memory;
  limits.with_draft = WithDraft(options, spec);
  limits.logit_rows = LogitRows(options.max_num_seqs, options.speculative_tokens);
  limits.threads = ThreadsOf(options);
  const std::int64_t batched = options.max_num_batched_tokens > 0
                                   ? options.max_num_batched_tokens
                                   : DefaultBatchedTokens(options, spec, setup);
  limits.max_rows = RowsOf(options, batched);
  KV8_ASSIGN_OR_RETURN(const std::int64_t max_snapshots, MaxSnapshots(options, spec));
  setup.scheduler = {.max_num_seqs = options.max_num_seqs,
                     .prefill_chunk = batched,
                     .prefill_beside_decode = std::min(batched, kBesideDecode),
                     .max_step_rows = limits.max_rows,
                     .with_draft = limits.with_draft,
                     .max_snapshots = max_snapshots,
                     .choices_only = options.prefix_cache_memory == 0,
                     .cache_generated = options.cache_generated};
  setup.preempted_bytes = PreemptedBytes(setup, spec);
  KV8_ASSIGN_OR_RETURN(setup.kv_host_bytes, HostTierBytes(options, setup, spec));
  return setup;
}

std::int64_t DefaultTableCache(std::int64_t table_bytes) {
  return std::min<std::int64_t>(256 << 20, table_bytes / 8);
}

std::optional<std::int64_t> TableCacheOf(const EngineOptions& options, std::int64_t table_bytes,
                                         std::int64_t memory) {
  if (options.device != DeviceKind::kCpu) return std::nullopt;
  const bool too_large = table_bytes > memory / 2;  // the other half is for all else
  const std::int64_t cache =
      options.table_cache.value_or(too_large ? DefaultTableCache(table_bytes) : 0);
  return cache > 0 ? std::optional(cache) : std::nullopt;
}

UnitLayout UnitLayoutOf(const KvCachePlan& cache, const ModelSpec& spec, bool with_draft) {
  return {.page_bytes = cache.page_bytes(), .state_bytes = SnapshotBytes(spec, with_draft)};
}

MemoryPlan PlanMemory(const EngineSetup& setup, const ModelSpec& spec,
                      const ExecutorMemory& executor) {
  const KvCachePlan& cache = setup.executor.cache;
  const bool with_draft = setup.executor.with_draft;
  const std::int64_t drafts = with_draft ? 1 : 0;
  const std::int64_t kv = cache.pages * cache.kv.page_bytes();
  const std::int64_t index = cache.pages * cache.index.page_bytes();
  return {.pages = cache.pages,
          .kv = kv * (cache.layers - drafts),
          .index = index * (cache.layers - drafts),
          .draft_kv = kv * drafts,
          .draft_index = index * drafts,
          .states = executor.states,
          .rollback = executor.rollback,
          .activations = executor.activations,
          .scratch = executor.scratch,
          .weights = executor.weights,
          .tables = executor.tables,
          .snapshots = setup.scheduler.max_snapshots * SnapshotBytes(spec, with_draft),
          .preempted = setup.preempted_bytes,
          .kv_host = setup.kv_host_bytes};
}

}  // namespace kv8
