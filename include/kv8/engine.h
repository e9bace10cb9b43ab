// The engine: one checkpoint, its K/V cache, and requests that run on them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv8/error.h"
#include "kv8/request.h"
#include "kv8/statistics.h"
#include "kv8/types.h"

namespace kv8 {

class Tokenizer;

/// How the draft head chooses when the request is sampled; greedy requests always draft greedily.
enum class DraftSampling {
  kGreedy,         // its best token; then output equals that without speculation, draw for draw
  kProbabilistic,  // a draw from its distribution; output keeps the target's distribution
};

struct EngineOptions {
  std::filesystem::path model;  // checkpoint or materialized view
  /// Directories whose tensors replace the model's, the last first: experts, the n-gram table or
  /// the draft head from another quantisation of it.
  std::vector<std::filesystem::path> overlays;
  std::optional<std::filesystem::path> scale_pack;  // only with kE4M3
  /// The model's, from whoever has read it; null: the engine reads it.
  std::shared_ptr<const Tokenizer> tokenizer;
  KvDType kv_dtype = KvDType::kFp16;
  /// Runs on a checkpoint that differs from the one the scales were measured on (a fine-tune,
  /// another quantisation); KvCacheInfo::accepted_lineage then says in what. Only with kE4M3.
  bool accept_lineage = false;
  /// Takes weights whose hash is not recorded for the right ones instead of reading them all once;
  /// KvCacheInfo::weights_binding says so. Only with kE4M3.
  bool trust_weights = false;
  /// Told the bytes done and in all while the weights are hashed; false stops. May be empty.
  std::function<bool(std::uint64_t done, std::uint64_t all)> hash_progress;
  int speculative_tokens = 0;  // drafts per step by the checkpoint's own head, 0 to 5
  DraftSampling draft_sampling = DraftSampling::kGreedy;

  std::int64_t max_model_len = 0;  // prompt and output of one request; 0: the checkpoint's limit
  int max_num_seqs = 1;            // sequences that run at once
  /// Bytes for the K/V and index pools; absent: room for max_num_seqs sequences of max_model_len,
  /// and a page more for each where a prefix hit beside a draft head needs a copy.
  std::optional<std::int64_t> kv_memory;
  /// Most prompt tokens of a pass, a multiple of kPageTokens. 0: 512 on a CPU; on a GPU 8,192, or
  /// as many so many that their activations take a sixteenth of its memory, but no more than can
  /// come. Tokens never depend on it.
  std::int64_t max_num_batched_tokens = 0;

  /// Bytes of host memory for recurrent states at points of earlier prompts; 0: no prefix cache,
  /// and only the choices of one request share their prompt. Pages of earlier prompts stay in the
  /// pools as long as nobody needs them.
  std::int64_t prefix_cache_memory = 0;
  /// Shares pages that were written while generating too: the next turn of a conversation then
  /// finds the answer, not the prompt alone. Decode kernels round differently than prefill does, so
  /// such a hit is not bit-identical to a cold run; without it every hit is.
  bool cache_generated = false;
  /// Bytes of host memory for pages and states that leave the pools and the prefix cache; 0: they
  /// are dropped. A beginning that comes back is copied and not computed. Needs a prefix cache.
  std::int64_t kv_host_memory = 0;
  /// Folder for what makes room in host memory, and for all of it when the engine ends; another
  /// engine with the same model, cache and scales goes on from there. Needs kv_host_memory.
  std::filesystem::path kv_disk;
  std::int64_t kv_disk_quota = 0;  // bytes of files; needed with kv_disk

  DeviceKind device = DeviceKind::kCpu;
  int threads = 0;  // 0: one per hardware thread
  /// Implementation of the ops; empty: the first. CPU: "simd", "reference", which is the plain one.
  /// GPU: "native"; "precise", whose products take activations as two parts of FP16, which is about
  /// FP32, and not as one; "sm70", the V100's code, precise too.
  std::string backend;
  /// Rows of n-gram tables are read from the files as soon as a step knows its tokens, and so many
  /// bytes of them are kept; 0: they are used where the files are mapped. Absent: 0 for tables that
  /// take at most half of the machine's memory, else 256 MiB. With kCpu alone.
  std::optional<std::int64_t> table_cache;
  /// Bytes of the GPU's memory that may be taken; absent: all that is free. With kCuda alone.
  std::optional<std::int64_t> device_memory;
};

/// The K/V pools and what was clipped in them.
struct KvCacheInfo {
  struct Layer {
    int layer = 0;  // number in the checkpoint; the draft layer has the number of target layers
    bool draft = false;
    float k_scale = 1;  // real K = code * k_scale; 1 without kE4M3
    float v_scale = 1;
    std::uint64_t saturated_k = 0;  // values clipped at the largest code
    std::uint64_t saturated_v = 0;
    std::uint64_t flushed_k = 0;  // values other than 0 that the codes took for 0
    std::uint64_t flushed_v = 0;
  };
  KvDType dtype = KvDType::kFp16;
  std::int64_t page_tokens = kPageTokens;
  std::int64_t bytes_per_token = 0;  // K and V, all layers
  std::int64_t pages = 0;            // per layer
  std::int64_t free_pages = 0;
  std::int64_t cached_pages = 0;  // of earlier prompts; those that nobody uses can be had at once
  std::int64_t bytes = 0;         // of the K/V pools
  std::int64_t index_bytes = 0;   // of the index pools
  std::int64_t state_bytes = 0;   // recurrent state of one sequence
  std::string scale_pack_id;      // empty without kE4M3
  WeightsBinding weights_binding = WeightsBinding::kNone;
  std::vector<std::string> accepted_lineage;  // names of what differs; see EngineOptions
  std::vector<Layer> layers;
};

/// Who holds one page of the pools.
struct KvPageInfo {
  int holders = 0;                  // 0: free
  bool cached = false;              // one of them is the prefix cache
  std::vector<RequestId> requests;  // the others, ascending
};

/// Bytes that an engine takes beside the mapped weights, by owner; known before it takes them. All
/// but `snapshots`, `preempted` and `kv_host` is taken at once and lies in memory of the device
/// that the model runs on; these lie in host memory and are the most that is ever taken.
struct MemoryPlan {
  std::int64_t pages = 0;     // per layer
  std::int64_t kv = 0;        // K and V of the target's layers
  std::int64_t index = 0;     // compressed index keys of the target's layers
  std::int64_t draft_kv = 0;  // the same of the draft layer
  std::int64_t draft_index = 0;
  std::int64_t states = 0;       // recurrent states of all sequences that run at once
  std::int64_t rollback = 0;     // states that verification may go back to
  std::int64_t activations = 0;  // of one step, logits among them: proportional to its rows
  /// What the CPU's ops need while they run: a piece proportional to the rows of a step, and a
  /// fixed one per thread. On a GPU it is among the activations.
  std::int64_t scratch = 0;
  std::int64_t weights = 0;  // copies on a GPU; the CPU computes on the mapped files
  /// Likewise of embedding and n-gram tables; 0 when on the host. On the CPU, n-gram rows that are
  /// kept of those read from the files.
  std::int64_t tables = 0;
  std::int64_t snapshots = 0;  // of shared beginnings
  std::int64_t preempted = 0;  // of sequences that gave way: all but one, each at its longest

  std::int64_t kv_host = 0;  // of the tier of the cache in host memory

  /// What is never on the device.
  std::int64_t host() const { return snapshots + preempted + kv_host; }
  std::int64_t total() const {
    return kv + index + draft_kv + draft_index + states + rollback + activations + scratch +
           weights + tables + host();
  }
};

/// What a text costs under the model.
struct Score {
  std::vector<float> nll;                               // natural log; entry i is about ids[i + 1]
  std::vector<TokenId> argmax;                          // one per position
  std::vector<std::vector<TokenLogprob>> top_logprobs;  // one per position when asked for
  double seconds = 0;
};

/// Facts about the loaded checkpoint.
struct ModelInfo {
  std::int64_t vocab = 0;
  std::int64_t max_model_len = 0;  // in force
  std::vector<TokenId> stop_ids;
  /// For whoever makes requests: the engine itself takes them as they are.
  GenerationDefaults generation;
  bool has_draft_head = false;
};

/// Runs one checkpoint. Not thread-safe: one thread makes all calls.
///
/// The tokens of a request depend on the request alone: not on what else runs, on chunk sizes, on
/// threads or on speculation.
class Engine {
 public:
  /// Loads and checks everything; nothing is found missing later. Errors: kInvalidArgument for
  /// options that contradict each other or the checkpoint; kResourceExhausted for a cache that does
  /// not fit; kUnsupported; those of reading the checkpoint and the scales.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  ~Engine();

  /// What Create would take, without taking it. Errors: those of Create but for running out.
  static Result<MemoryPlan> Plan(const EngineOptions& options);

  /// Puts a request in line; Step works on it. Callbacks run inside Step or Cancel; they may be
  /// empty, and only `on_done` may call the engine. Errors: kInvalidArgument for an empty prompt,
  /// ids outside the vocabulary, lengths beyond max_model_len and sampling values out of range;
  /// those of reading tokenizer.json when text is wanted.
  Result<RequestId> Submit(Request request, TokenCallback on_token, DoneCallback on_done);
  /// Schedules, runs and commits one batch of rows. False when no work is left.
  bool Step();
  /// Ends a request at any point; its completion says kCancelled. Nothing for an unknown id.
  void Cancel(RequestId id);

  /// Runs one request to its end, and whatever else was submitted along with it. `on_token` may be
  /// empty. Errors: as Submit.
  Result<Completion> Generate(const Request& request, const TokenCallback& on_token = {});

  /// Negative log-likelihood of `ids` through prefill kernels, and the `top_logprobs` best tokens
  /// of each position. Errors: as Submit.
  Result<Score> ScoreTokens(std::span<const TokenId> ids, int top_logprobs = 0);

  /// What ended the engine for good: a device that failed, a weight file that changed in use. Every
  /// request ends with it.
  const std::optional<Error>& failure() const;
  const ModelInfo& model() const;
  const MemoryPlan& memory() const;
  KvCacheInfo kv_cache() const;
  /// Every page of the pools, by number. Preempted requests hold none.
  std::vector<KvPageInfo> pool_map() const;
  EngineStatistics statistics() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace kv8
