#include "kv8/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/machine_memory.h"
#include "base/sha256.h"
#include "engine/engine_impl.h"
#include "engine/options.h"
#include "engine/request_check.h"
#include "ops/routes.h"

namespace kv8 {

namespace {

Result<LoadedModel> Open(const EngineOptions& options) {
  KV8_RETURN_IF_ERROR(CheckOptions(options));
  return LoadedModel::Open({.dir = options.model,
                            .overlays = options.overlays,
                            .scale_pack = options.scale_pack,
                            .kv_dtype = options.kv_dtype,
                            .with_draft = options.speculative_tokens > 0,
                            .lineage = {.accept = options.accept_lineage,
                                        .hash = {.recorded_only = options.trust_weights,
                                                 .threads = options.threads,
                                                 .progress = options.hash_progress}}});
}

/// Null when the checkpoint has none: requests by token ids need none.
Result<std::shared_ptr<const Tokenizer>> FindTokenizer(const EngineOptions& options) {
  if (options.tokenizer != nullptr) return options.tokenizer;
  auto tokenizer = Tokenizer::Load(options.model / "tokenizer.json");
  if (tokenizer.ok()) return std::make_shared<const Tokenizer>(std::move(tokenizer).value());
  if (tokenizer.error().code == Code::kNotFound) return std::shared_ptr<const Tokenizer>();
  return std::move(tokenizer).error();
}

Result<EngineSetup> SetUpFor(const EngineOptions& options, const LoadedModel& loaded) {
  const Model& model = loaded.model();
  KV8_ASSIGN_OR_RETURN(EngineSetup setup, SetUp(options, model.spec));
  std::int64_t tables = 0;
  for (const LayerWeights& layer : model.weights.layers) {
    if (!layer.ple) continue;
    for (const Weight& shard : layer.ple->shards) tables += shard.bytes();
  }
  setup.executor.table_cache = TableCacheOf(options, tables, MachineMemory());
  setup.executor.files = &loaded.checkpoint();
  return setup;
}

/// Raised whenever the same tokens may give other bytes than the kv8 before: units of another
/// version are not used.
constexpr int kCacheVersion = 1;

Result<std::string> BindingOf(const EngineOptions& options, const EngineSetup& setup,
                              const LoadedModel& model) {
  KV8_ASSIGN_OR_RETURN(
      const std::string identity,
      model.Identity({.threads = options.threads, .progress = options.hash_progress}));
  const KvCachePlan& cache = setup.executor.cache;
  return Sha256Hex(fmt::format(
      "version {} model {} device {} code {} dtype {} layers {} page {} draft {} generated {}",
      kCacheVersion, identity, static_cast<int>(options.device),
      RoutesOf(options.device, options.backend).front().code, static_cast<int>(options.kv_dtype),
      cache.layers, cache.page_bytes(), setup.executor.with_draft, options.cache_generated));
}

/// Null without one.
Result<std::unique_ptr<HostTier>> OpenTier(const EngineOptions& options, const EngineSetup& setup,
                                           const LoadedModel& model) {
  if (setup.kv_host_bytes == 0) return std::unique_ptr<HostTier>();
  const bool with_draft = setup.executor.with_draft;
  HostTierOptions tier{.layout = UnitLayoutOf(setup.executor.cache, model.model().spec, with_draft),
                       .budget = setup.kv_host_bytes,
                       .with_draft = with_draft};
  std::unique_ptr<DiskStore> store;
  if (!options.kv_disk.empty()) {
    KV8_ASSIGN_OR_RETURN(tier.binding, BindingOf(options, setup, model));
    KV8_ASSIGN_OR_RETURN(store, DiskStore::Open({.dir = options.kv_disk,
                                                 .quota = options.kv_disk_quota,
                                                 .binding = tier.binding,
                                                 .layout = tier.layout}));
  }
  return std::make_unique<HostTier>(std::move(tier), std::move(store));
}

}  // namespace

Result<MemoryPlan> Engine::Plan(const EngineOptions& options) {
  KV8_ASSIGN_OR_RETURN(const LoadedModel model, Open(options));
  KV8_ASSIGN_OR_RETURN(const EngineSetup setup, SetUpFor(options, model));
  KV8_ASSIGN_OR_RETURN(const ExecutorMemory executor,
                       PlanExecutor(setup.device, model.model(), setup.executor));
  return PlanMemory(setup, model.model().spec, executor);
}

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  KV8_ASSIGN_OR_RETURN(LoadedModel loaded, Open(options));
  auto model = std::make_unique<const LoadedModel>(std::move(loaded));
  KV8_ASSIGN_OR_RETURN(EngineSetup setup, SetUpFor(options, *model));
  setup.executor.scales = model->scales();
  KV8_ASSIGN_OR_RETURN(auto tokenizer, FindTokenizer(options));
  setup.executor.tokens = model->model().spec.vocab;
  if (tokenizer) {
    setup.executor.tokens =
        std::min(setup.executor.tokens, static_cast<std::int64_t>(tokenizer->vocab_size()));
  }
  KV8_ASSIGN_OR_RETURN(auto tier, OpenTier(options, setup, *model));
  KV8_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                       CreateExecutor(setup.device, model->model(), setup.executor));
  return std::unique_ptr<Engine>(
      new Engine(std::make_unique<Impl>(options, setup, std::move(model), std::move(executor),
                                        std::move(tokenizer), std::move(tier))));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<RequestId> Engine::Submit(Request request, TokenCallback on_token, DoneCallback on_done) {
  return impl_->Submit(std::move(request), std::move(on_token), std::move(on_done));
}

bool Engine::Step() {
  return impl_->Step();
}

void Engine::Cancel(RequestId id) {
  impl_->Cancel(id);
}

Result<Completion> Engine::Generate(const Request& request, const TokenCallback& on_token) {
  std::optional<Completion> done;
  const auto keep = [&done](Completion completion) { done = std::move(completion); };
  KV8_RETURN_IF_ERROR(impl_->Submit(request, on_token, keep));
  while (!done) impl_->Step();
  if (done->error) return *done->error;
  return std::move(*done);
}

Result<Score> Engine::ScoreTokens(std::span<const TokenId> ids, int top_logprobs) {
  return impl_->ScoreTokens(ids, top_logprobs);
}

const std::optional<Error>& Engine::failure() const {
  return impl_->failure();
}

const ModelInfo& Engine::model() const {
  return impl_->model();
}

const MemoryPlan& Engine::memory() const {
  return impl_->memory();
}

EngineStatistics Engine::statistics() const {
  return impl_->statistics();
}

std::vector<KvPageInfo> Engine::pool_map() const {
  return impl_->pool_map();
}

KvCacheInfo Engine::kv_cache() const {
  return impl_->kv_cache();
}

}  // namespace kv8
