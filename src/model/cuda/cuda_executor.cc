#include "model/cuda/cuda_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/forward.h"
#include "numeric/log_histogram.h"

namespace kv8::cuda {

Result<ExecutorMemory> CudaExecutor::Plan(const Model& model, const ExecutorLimits& limits) {
  KV8_ASSIGN_OR_RETURN(const DeviceMemoryPlan plan, DeviceMemoryPlan::For(model, limits));
  return plan.ByOwner(false);
}

ExecutorMemory CudaExecutor::SizesOf(const Model& model, const ExecutorLimits& limits) {
  return DeviceMemoryPlan::SizesOf(model, limits).ByOwner(false);
}

Result<std::unique_ptr<Executor>> CudaExecutor::Create(const Model& model,
                                                       const ExecutorLimits& limits) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(model, limits));
  KV8_RETURN_IF_ERROR(executor->Open());
  return std::unique_ptr<Executor>(std::move(executor));
}

CudaExecutor::CudaExecutor(const Model& model, const ExecutorLimits& limits)
    : model_(model),
      limits_(limits),
      layout_(StateLayout::For(model.spec, limits.with_draft)),
      width_(model_.spec.stream_width()) {}

CudaExecutor::~CudaExecutor() {
  // Memory is given back by the thread that destroys it; a failure changes nothing about that.
  if (device_) (void)device_->AttachThread();
}

namespace {

Result<CodeChoice> CodeOf(const std::string& backend) {
  if (backend.empty() || backend == kNativeBackend || backend == kPreciseBackend) {
    return CodeChoice::kForDevice;
  }
  if (backend == kSm70Backend) return CodeChoice::kSm70;
  return Error{Code::kUnsupported, "no op backend named '" + backend + "'", "op backend",
               fmt::format("with --device cuda use one of: {}, {}, {}", kNativeBackend,
                           kPreciseBackend, kSm70Backend)};
}

}  // namespace

/// Refuses all that the device cannot run, and what does not fit before any memory is taken.
Result<void> CudaExecutor::Open() {
  KV8_ASSIGN_OR_RETURN(const CodeChoice code, CodeOf(limits_.backend));
  KV8_ASSIGN_OR_RETURN(const DeviceMemoryPlan plan, DeviceMemoryPlan::For(model_, limits_));
  KV8_ASSIGN_OR_RETURN(device_, Device::Open());
  KV8_ASSIGN_OR_RETURN(CudaOps ops, CudaOps::Load(*device_, code));
  ops_ = std::move(ops);
  KV8_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
  KV8_ASSIGN_OR_RETURN(DeviceMemoryInfo now, device_->Memory());
  now.free_bytes = std::min(now.free_bytes, limits_.device_memory.value_or(now.free_bytes));
  const bool tables_on_host = plan.total(false) > now.free_bytes;
  KV8_RETURN_IF_ERROR(plan.CheckFits(tables_on_host, now, *device_));
  memory_ = plan.ByOwner(tables_on_host);
  KV8_RETURN_IF_ERROR(TakeWeights(plan, tables_on_host));
  KV8_RETURN_IF_ERROR(TakeHostBuffers());
  KV8_RETURN_IF_ERROR(TakeBuffers());
  KV8_RETURN_IF_ERROR(TryEveryOp());
  return limits_.prefill_only ? Result<void>() : CaptureGraphs();
}

Result<void> CudaExecutor::TakeWeights(const DeviceMemoryPlan& plan, bool tables_on_host) {
  KV8_ASSIGN_OR_RETURN(weight_memory_, device_->Allocate(plan.weights, "the weights"));
  KV8_ASSIGN_OR_RETURN(table_memory_, tables_on_host
                                          ? device_->AllocateHost(plan.tables, "the tables")
                                          : device_->Allocate(plan.tables, "the tables"));
  Arena arrays(weight_memory_.data()), tables(table_memory_.data());
  WeightPlacer placer(arrays, tables);
  weights_ = placer.Place(model_, limits_.with_draft);
  return placer.Upload(stream_);
}

Result<void> CudaExecutor::TakeBuffers() {
  KV8_ASSIGN_OR_RETURN(DeviceState state, DeviceState::Create(*device_, stream_, layout_, limits_));
  state_ = std::move(state);
  KV8_ASSIGN_OR_RETURN(
      PassInputs inputs,
      PassInputs::Create(*device_, limits_, model_.spec.qsa.selection_block_tokens));
  inputs_ = std::move(inputs);
  const WorkspaceSize size = WorkspaceSizeFor(limits_);
  Arena sizes;
  DeviceWorkspace::Take(sizes, model_.spec, size);
  KV8_ASSIGN_OR_RETURN(work_memory_, device_->Allocate(sizes.bytes(), "activations"));
  KV8_RETURN_IF_ERROR(stream_.Fill(work_memory_.data(), std::byte{0}, work_memory_.bytes()));
  Arena arena(work_memory_.data());
  work_ = DeviceWorkspace::Take(arena, model_.spec, size);
  const std::int64_t tokens = limits_.tokens > 0 ? limits_.tokens : model_.spec.vocab;
  parts_.emplace(DeviceModel{model_.spec, *ops_, weights_, *state_, work_, *inputs_,
                             static_cast<std::int32_t>(tokens), limits_.drafts, size.observed_heads,
                             static_cast<int>(size.activation_parts)});
  return WriteConstants(size.rows);
}

/// Pinned memory that results are read to, as if all of them were 0.
Result<void> CudaExecutor::TakeHostBuffers() {
  const std::int64_t values = limits_.logit_rows * model_.spec.vocab;
  const std::int64_t value_bytes = values * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t token_bytes = limits_.logit_rows * static_cast<std::int64_t>(sizeof(TokenId));
  KV8_ASSIGN_OR_RETURN(logit_memory_, device_->AllocateHost(value_bytes, "logits"));
  KV8_ASSIGN_OR_RETURN(token_memory_, device_->AllocateHost(token_bytes, "tokens"));
  const std::int64_t rules = PaddedRows(limits_.logit_rows);
  KV8_ASSIGN_OR_RETURN(
      rule_memory_,
      device_->AllocateHost(rules * static_cast<std::int64_t>(sizeof(ChoiceRule)), "rules"));
  std::fill_n(rule_memory_.As<ChoiceRule>(), rules, ChoiceRule{});
  std::fill_n(logit_memory_.As<float>(), values, 0.0f);
  std::fill_n(token_memory_.As<TokenId>(), limits_.logit_rows, 0);
  return {};
}

/// What kernels only read: the copies between streams, and ones.
Result<void> CudaExecutor::WriteConstants(std::int64_t rows) {
  const std::int64_t bytes = width_ * static_cast<std::int64_t>(sizeof(float));
  const auto copy = [bytes](const float* from, float* to) {
    return CopyArray{reinterpret_cast<const unsigned char*>(from),
                     reinterpret_cast<unsigned char*>(to), bytes, bytes, bytes};
  };
  const std::array gathers = {
      copy(work_.streams, work_.token_streams), copy(work_.draft_streams, work_.token_streams),
      copy(work_.streams, work_.draft_input), copy(work_.draft_streams, work_.draft_input)};
  KV8_RETURN_IF_ERROR(stream_.Copy(work_.gathers, gathers.data(), sizeof(gathers)));
  if (limits_.observe_kv) {
    const auto cells = Log2Bins::Get().cells();
    KV8_RETURN_IF_ERROR(stream_.Copy(work_.magnitudes.cells, cells.data(),
                                     static_cast<std::int64_t>(cells.size_bytes())));
  }
  const std::vector<float> ones(
      static_cast<std::size_t>(limits_.with_draft ? rows * model_.spec.streams : 0), 1.0f);
  KV8_RETURN_IF_ERROR(stream_.Copy(work_.ones, ones.data(),
                                   std::ssize(ones) * static_cast<std::int64_t>(sizeof(float))));
  return stream_.Synchronize();
}

/// Runs a pass over padding: an op without a kernel fails now, and all code is loaded.
Result<void> CudaExecutor::TryEveryOp() {
  KV8_ASSIGN_OR_RETURN(PassShape shape, inputs_->UploadPadding(stream_));
  shape.max_selection_blocks = ContextBound(0);
  KV8_RETURN_IF_ERROR(Enqueue(Work::kForward, shape));
  KV8_RETURN_IF_ERROR(Enqueue(Work::kChoose, shape));
  if (limits_.with_draft) {
    KV8_RETURN_IF_ERROR(Enqueue(Work::kDraft, shape));
    KV8_RETURN_IF_ERROR(Enqueue(Work::kDraftBest, shape));
  }
  return stream_.Synchronize();
}

// ---- passes -----------------------------------------------------------------------------------

/// Selection blocks of the longest sequence.
std::int32_t CudaExecutor::MostSelectionBlocks() const {
  return static_cast<std::int32_t>(limits_.sequence_pages * kPageTokens /
                                   model_.spec.qsa.selection_block_tokens);
}

/// The least of budget, 4 budgets, 16 budgets and so on: few graphs serve all contexts.
std::int32_t CudaExecutor::ContextBound(std::int32_t blocks) const {
  const std::int32_t most = MostSelectionBlocks();
  std::int32_t bound = RoundUp(model_.spec.qsa.budget_selection_blocks, 4);
  while (bound < std::min(blocks, most)) bound *= 4;
  return std::min(bound, most);
}

Result<void> CudaExecutor::Enqueue(Work work, const PassShape& shape) {
  if (work == Work::kForward) {
    CudaSteps steps(*parts_, stream_, shape, work_.streams);
    return RunTarget(steps, weights_.weights);
  }
  if (work == Work::kDraft) {
    CudaSteps steps(*parts_, stream_, shape, work_.draft_streams);
    return kv8::RunDraft(steps, weights_.weights);
  }
  CudaSteps steps(*parts_, stream_, shape, work_.token_streams);
  const ModelWeights& weights = weights_.weights;
  KV8_RETURN_IF_ERROR(
      kv8::RunHead(steps, IsDraft(work) ? weights.mtp->mixer : weights.mixer, weights.lm_head));
  if (work == Work::kLogits || work == Work::kDraftLogits) return {};
  KV8_RETURN_IF_ERROR(steps.BestTokens());
  return work == Work::kChoose ? steps.ChooseTokens() : Result<void>();
}

Result<void> CudaExecutor::Run(Work work, PassShape shape) {
  shape.max_selection_blocks = ContextBound(shape.max_selection_blocks);
  if (work == Work::kDraft) shape.rounds = 0;  // nothing recurrent in it
  if (!shape.padded) return Enqueue(work, shape);
  KV8_ASSIGN_OR_RETURN(const DeviceGraph* const graph, Captured(work, shape));
  return stream_.Launch(*graph);
}

Result<DeviceGraph*> CudaExecutor::Captured(Work work, const PassShape& shape) {
  const auto [graph, is_new] = graphs_.try_emplace(GraphKey{work, shape});
  if (is_new) {
    KV8_RETURN_IF_ERROR(stream_.BeginCapture());
    KV8_RETURN_IF_ERROR(Enqueue(work, shape));
    KV8_ASSIGN_OR_RETURN(graph->second, stream_.EndCapture());
  }
  return &graph->second;
}

/// Captures every shape that a pass can have, so that no request waits for a capture.
Result<void> CudaExecutor::CaptureGraphs() {
  const std::int64_t decode_rows = std::int64_t{limits_.slots} * (1 + limits_.drafts);
  for (std::int32_t rows = 1; rows <= PaddedRows(decode_rows); rows *= 2) {
    for (std::int32_t bound = 0; bound < MostSelectionBlocks();) {
      bound = ContextBound(bound + 1);
      for (std::int32_t rounds = 1; rounds <= std::min(rows, 1 + limits_.drafts); ++rounds) {
        if (rows > PaddedRows(std::int64_t{limits_.slots} * rounds)) continue;
        PassShape shape = inputs_->DescribePadding(rows, rounds);
        shape.max_selection_blocks = bound;
        KV8_RETURN_IF_ERROR(Captured(Work::kForward, shape));
        shape.rounds = 0;
        if (limits_.with_draft) KV8_RETURN_IF_ERROR(Captured(Work::kDraft, shape));
      }
    }
  }
  for (std::int32_t rows = 1; rows <= PaddedRows(limits_.logit_rows); rows *= 2) {
    const PassShape shape{.rows = rows, .max_selection_blocks = ContextBound(0), .padded = true};
    for (const Work work : {Work::kLogits, Work::kBest, Work::kChoose}) {
      KV8_RETURN_IF_ERROR(Captured(work, shape));
    }
    if (!limits_.with_draft) continue;
    for (const Work work : {Work::kDraftLogits, Work::kDraftBest}) {
      KV8_RETURN_IF_ERROR(Captured(work, shape));
    }
  }
  return {};
}

void CudaExecutor::Forward(std::span<const TokenId> ids, std::span<const SlotRows> items) {
  Guard([&]() -> Result<void> {
    KV8_RETURN_IF_ERROR(ApplyPending());
    KV8_ASSIGN_OR_RETURN(const PassShape shape, inputs_->Upload(stream_, ids, items, {}));
    return Run(Work::kForward, shape);
  });
}

void CudaExecutor::Draft(std::span<const TokenId> ids, std::span<const SlotRows> items,
                         std::span<const std::int64_t> sources, StreamSource source) {
  Guard([&]() -> Result<void> {
    KV8_RETURN_IF_ERROR(ApplyPending());
    KV8_ASSIGN_OR_RETURN(const PassShape shape, inputs_->Upload(stream_, ids, items, sources));
    const CopySet gather =
        GatherSet(source == StreamSource::kTarget ? Gather::kTargetDraft : Gather::kDraftDraft);
    KV8_RETURN_IF_ERROR(
        ops_->CopyItems(stream_, {.arrays = gather.arrays,
                                  .array_count = gather.count,
                                  .pair_count = static_cast<std::int32_t>(sources.size()),
                                  .largest = gather.largest,
                                  .pairs = inputs_->sources()}));
    return Run(Work::kDraft, shape);
  });
}

Matrix CudaExecutor::Logits(std::span<const std::int64_t> rows) {
  return ReadLogits(Work::kLogits, rows);
}

Matrix CudaExecutor::DraftLogits(std::span<const std::int64_t> rows) {
  return ReadLogits(Work::kDraftLogits, rows);
}

std::span<const TokenId> CudaExecutor::ChooseTokens(std::span<const std::int64_t> rows,
                                                    std::span<const ChoiceRule> rules) {
  if (std::ranges::all_of(rules, [](const ChoiceRule& rule) { return rule.scale == 0; })) {
    return ReadTokens(Work::kBest, rows);
  }
  Guard([&] { return SendRules(rules); });
  return ReadTokens(Work::kChoose, rows);
}

std::span<const TokenId> CudaExecutor::BestDraftTokens(std::span<const std::int64_t> rows) {
  return ReadTokens(Work::kDraftBest, rows);
}

/// Rows of padding draw nothing. The host's copy may be overwritten: reading tokens has waited for
/// the device.
Result<void> CudaExecutor::SendRules(std::span<const ChoiceRule> rules) {
  const std::int32_t padded = PaddedRows(std::ssize(rules));
  ChoiceRule* const on_host = rule_memory_.As<ChoiceRule>();
  std::fill(std::ranges::copy(rules, on_host).out, on_host + padded, ChoiceRule{});
  return stream_.Copy(work_.choice.rules, on_host,
                      padded * static_cast<std::int64_t>(sizeof(ChoiceRule)));
}

Matrix CudaExecutor::ReadLogits(Work work, std::span<const std::int64_t> rows) {
  const std::int64_t vocab = model_.spec.vocab;
  Guard([&] {
    return RunHead(work, rows, work_.logits, logit_memory_,
                   vocab * static_cast<std::int64_t>(sizeof(float)));
  });
  return Matrix(logit_memory_.As<float>(), std::ssize(rows), vocab);
}

std::span<const TokenId> CudaExecutor::ReadTokens(Work work, std::span<const std::int64_t> rows) {
  static_assert(cuda::kNoToken == kv8::kNoToken);
  Guard([&] { return RunHead(work, rows, work_.best_tokens, token_memory_, sizeof(TokenId)); });
  return {token_memory_.As<TokenId>(), rows.size()};
}

Result<void> CudaExecutor::RunHead(Work work, std::span<const std::int64_t> rows, const void* from,
                                   const DeviceMemory& to, std::int64_t bytes_per_row) {
  pairs_.clear();
  for (const std::int64_t row : rows) {
    pairs_.push_back({static_cast<std::int32_t>(row), static_cast<std::int32_t>(pairs_.size())});
  }
  KV8_RETURN_IF_ERROR(
      Copy(GatherSet(IsDraft(work) ? Gather::kDraftTokens : Gather::kTargetTokens), pairs_));
  KV8_RETURN_IF_ERROR(Run(work, {.rows = PaddedRows(std::ssize(rows)), .padded = true}));
  return Read(to.data(), from, std::ssize(rows) * bytes_per_row);
}

}  // namespace kv8::cuda
