#include "ops/cuda/cuda_ops.h"

#include <algorithm>

#include "base/checked.h"
#include "kvcache/layout.h"
#include "numeric/log_histogram.h"
#include "ops/cuda/device_code.h"
#include "ops/cuda/kernel_limits.h"

namespace kv8::cuda {
namespace {

static_assert(kMagnitudeBins == LogHistogram::kBins &&
              kMagnitudeCellShift == Log2Bins::kCellShift &&
              kMagnitudeLowestBits == Log2Bins::kLowestBits &&
              kMagnitudeHighestBits == Log2Bins::kHighestBits &&
              sizeof(MagnitudeCell) == sizeof(Log2Bins::Cell));
static_assert(kPageTokens == kv8::kPageTokens && kRingTokens == kIndexRingTokens);

constexpr int kMaxHeadDim = 256;

/// The image of `code` that runs on `architecture`.
std::span<const std::byte> ChooseImage(const DeviceCode& code, int architecture,
                                       CodeChoice choice) {
  const bool volta = architecture < 75;
  if (choice == CodeChoice::kSm70 && !volta) return code.sm70_ptx;
  return volta && !code.sm70_cubin.empty() ? code.sm70_cubin : code.fatbin;
}

Result<DeviceModule> LoadSource(Device& device, const DeviceCode& code, CodeChoice choice) {
  const std::span<const std::byte> image = ChooseImage(code, device.info().architecture, choice);
  if (image.empty()) {
    return Error{Code::kUnsupported,
                 fmt::format("this build has no code of {} for architecture {}", code.source,
                             choice == CodeChoice::kSm70 ? 70 : device.info().architecture),
                 fmt::format("GPU {} ({})", device.info().ordinal, device.info().name),
                 "build with -DKV8_CUDA_SM70=ON or with a CUDA 12 toolkit"};
  }
  return device.LoadModule(image, code.source);
}

}  // namespace

Result<CudaOps> CudaOps::Load(Device& device, CodeChoice choice) {
  const std::span<const DeviceCode> sources = EmbeddedDeviceCode();
  if (sources.empty()) {
    return Error{Code::kUnsupported, "this build has no device code", "device cuda",
                 "build with -DKV8_CUDA=ON and a CUDA toolkit, or use the CPU"};
  }
  CudaOps ops;
  for (const DeviceCode& code : sources) {
    KV8_ASSIGN_OR_RETURN(DeviceModule module, LoadSource(device, code, choice));
    for (std::size_t i = 0; i < kKernelCount; ++i) {
      if (kKernelNames[i].source != code.source) continue;
      KV8_ASSIGN_OR_RETURN(ops.kernels_[i], module.Kernel(kKernelNames[i].kernel));
    }
    for (std::size_t i = 0; i < kProductKernelCount; ++i) {
      if (kProductKernels[i].name.source != code.source) continue;
      KV8_ASSIGN_OR_RETURN(ops.products_[i], module.Kernel(kProductKernels[i].name.kernel));
    }
    ops.modules_.push_back(std::move(module));
  }
  ops.run_ahead_ = choice == CodeChoice::kForDevice && device.info().architecture >= 80;
  ops.max_shared_bytes_ = device.info().max_shared_bytes;
  for (std::size_t i = 0; i < kProductKernelCount; ++i) {
    if (!IsTiles(kProductKernels[i].form)) continue;
    KV8_RETURN_IF_ERROR(
        ops.products_[i].AllowSharedMemory(ops.max_shared_bytes_ - kTileStaticBytes));
    KV8_ASSIGN_OR_RETURN(ops.tile_threads_, ops.products_[i].MaxThreads());
  }
  ops.multiprocessors_ = device.info().multiprocessors;
  for (std::size_t i = 0; i < kKernelCount; ++i) {
    if (kKernelNames[i].source == "sparse_attention") {
      KV8_RETURN_IF_ERROR(ops.kernels_[i].AllowSharedMemory(
          AttentionSharedBytes(kMaxHeadDim, KvElement::kFp16, ops.run_ahead_)));
    } else if (kKernelNames[i].source == "prompt_attention") {
      KV8_RETURN_IF_ERROR(ops.kernels_[i].AllowSharedMemory(ops.max_shared_bytes_));
    }
  }
  return ops;
}

Result<void> CudaOps::KvObserve(DeviceStream& stream, const KvObserveArgs& args) const {
  return stream.Launch(Get(KernelId::kKvObserve),
                       {.grid_x = CeilDiv(args.rows.count, kObserveRows),
                        .grid_y = args.heads,
                        .grid_z = 2,
                        .threads = 256},
                       &args);
}

Result<void> CudaOps::QsaStore(DeviceStream& stream, const QsaStoreArgs& args) const {
  constexpr int kWarps = 4;
  constexpr std::string_view kOp = "qsa_store";
  constexpr Values kDims{.max = kMaxHeadDim, .multiple_of = 16};
  KV8_RETURN_IF_ERROR(Check(kOp, "head_dim", args.kv.head_dim, kDims));
  KV8_RETURN_IF_ERROR(Check(kOp, "index_dim", args.index.index_dim, kDims));
  const std::int64_t narrower = std::min(args.kv.head_dim, args.index.index_dim);
  KV8_RETURN_IF_ERROR(Check(kOp, "rotary_dim", args.rotary_dim, {.min = 0, .max = narrower}));
  const int heads = args.query_heads + 2 * args.kv.kv_heads + args.index_heads + 1;
  return stream.Launch(
      Get(KernelId::kQsaStore),
      {.grid_x = args.rows.count, .grid_y = CeilDiv(heads, kWarps), .threads = 32 * kWarps}, &args);
}

Result<void> CudaOps::SelectBlocks(DeviceStream& stream, SelectBlocksArgs args) const {
  constexpr std::string_view kOp = "select_blocks";
  KV8_RETURN_IF_ERROR(Check(kOp, "index_dim", args.index.index_dim, kIndexDims));
  KV8_RETURN_IF_ERROR(
      Check(kOp, "selection_block_tokens", args.selection_block_tokens, kSelectionBlocks));
  KV8_RETURN_IF_ERROR(Check(kOp, "index_heads", args.index_heads, kIndexHeadCounts));
  if (args.max_selection_blocks > args.budget_selection_blocks) {
    const KernelId scores =
        args.index.index_dim == 64 ? KernelId::kIndexScores64 : KernelId::kIndexScores128;
    args.keys_per_thread_block =
        ScoreKeysPerThreadBlock(args.rows.count, args.max_selection_blocks, multiprocessors_);
    KV8_RETURN_IF_ERROR(
        stream.Launch(Get(scores),
                      {.grid_x = CeilDiv(args.max_selection_blocks, args.keys_per_thread_block),
                       .grid_y = args.rows.count,
                       .threads = 128},
                      &args));
  }
  return stream.Launch(Get(KernelId::kChooseBlocks), {.grid_x = args.rows.count, .threads = 1024},
                       &args);
}

namespace {

/// Of attention over one type of elements: one for each of three head sizes.
struct AttentionKernels {
  KernelId by_64, by_128, by_256;
};

Result<KernelId> ChooseAttention(const SparseAttentionArgs& args, const AttentionKernels& kernels) {
  constexpr std::string_view kOp = "sparse_attention";
  const int dim = args.kv.head_dim;
  KV8_RETURN_IF_ERROR(Check(kOp, "head_dim", dim, kHeadDims));
  KV8_RETURN_IF_ERROR(
      Check(kOp, "selection_block_tokens", args.selection_block_tokens, kSelectionBlocks));
  KV8_RETURN_IF_ERROR(Check(kOp, "query heads per K/V head",
                            CeilDiv(args.query_heads, args.kv.kv_heads), kHeadsPerKvHead));
  return dim == 64 ? kernels.by_64 : dim == 128 ? kernels.by_128 : kernels.by_256;
}

}  // namespace

Result<void> CudaOps::SparseAttention(DeviceStream& stream, const SparseAttentionArgs& args) const {
  constexpr AttentionKernels kFp16{KernelId::kAttentionFp16d64, KernelId::kAttentionFp16d128,
                                   KernelId::kAttentionFp16d256};
  constexpr AttentionKernels kE4M3{KernelId::kAttentionE4M3d64, KernelId::kAttentionE4M3d128,
                                   KernelId::kAttentionE4M3d256};
  KV8_ASSIGN_OR_RETURN(const KernelId id,
                       ChooseAttention(args, args.kv.type == KvElement::kE4M3 ? kE4M3 : kFp16));
  return stream.Launch(
      Get(id),
      {.grid_x = MaxAttentionSplits(args.budget_selection_blocks),
       .grid_y = args.kv.kv_heads,
       .grid_z = args.rows.count,
       .threads = 128,
       .shared_bytes = AttentionSharedBytes(args.kv.head_dim, args.kv.type, run_ahead_)},
      &args);
}

/// Where a device has too little for the kernel, rows are computed one by one.
Result<void> CudaOps::PromptAttention(DeviceStream& stream, PromptAttentionArgs args) const {
  constexpr AttentionKernels kFp16{KernelId::kPromptFp16d64, KernelId::kPromptFp16d128,
                                   KernelId::kPromptFp16d256};
  constexpr AttentionKernels kE4M3{KernelId::kPromptE4M3d64, KernelId::kPromptE4M3d128,
                                   KernelId::kPromptE4M3d256};
  const SparseAttentionArgs& a = args.attention;
  const KvPoolView& kv = a.kv;
  KV8_ASSIGN_OR_RETURN(const KernelId id,
                       ChooseAttention(a, kv.type == KvElement::kE4M3 ? kE4M3 : kFp16));
  args.stages = PromptStages(kv.head_dim, kv.type, a.budget_selection_blocks, max_shared_bytes_);
  if (!run_ahead_ || args.stages < kMinPromptStages) return SparseAttention(stream, a);
  return stream.Launch(Get(id),
                       {.grid_x = args.group_count,
                        .grid_y = kv.kv_heads,
                        .threads = 32 * kPromptGroupRows,
                        .shared_bytes = static_cast<int>(PromptSharedBytes(
                            kv.head_dim, kv.type, a.budget_selection_blocks, args.stages))},
                       &args);
}

Result<void> CudaOps::GdnConvolve(DeviceStream& stream, const GdnArgs& args) const {
  const int dim = args.key_dim;
  KV8_RETURN_IF_ERROR(Check("gdn", "key_dim", dim, kGdnDims));
  KV8_RETURN_IF_ERROR(Check("gdn", "value_dim", args.value_dim, {.one_of = {dim}}));
  const int heads = 2 * args.key_heads + args.value_heads;
  const std::int64_t slices = args.slices.count;
  KV8_RETURN_IF_ERROR(stream.Launch(Get(dim == 32 ? KernelId::kGdnConv32 : KernelId::kGdnConv128),
                                    {.grid_x = heads,
                                     .grid_y = slices,
                                     .grid_z = CeilDiv(args.max_rows, kGdnConvRows),
                                     .threads = dim},
                                    &args));
  if (args.max_rows <= kGdnConvRows) return {};
  return stream.Launch(Get(KernelId::kGdnConvState),
                       {.grid_x = CeilDiv(heads * dim, 128), .grid_y = slices, .threads = 128},
                       &args);
}

Result<void> CudaOps::Gdn(DeviceStream& stream, const GdnArgs& args) const {
  KV8_RETURN_IF_ERROR(GdnConvolve(stream, args));
  const bool small = args.key_dim == 32;
  return stream.Launch(
      Get(small ? KernelId::kGdnRecurrence32 : KernelId::kGdnRecurrence128),
      {.grid_x = args.value_heads, .grid_y = args.slices.count, .threads = small ? 32 : 256},
      &args);
}

Result<void> CudaOps::GdnPrefill(DeviceStream& stream, const GdnArgs& args) const {
  KV8_RETURN_IF_ERROR(GdnConvolve(stream, args));
  const bool small = args.key_dim == 32;
  const LaunchShape by_chunk{.grid_x = CeilDiv(args.max_rows, kGdnChunkRows),
                             .grid_y = args.value_heads,
                             .grid_z = args.slices.count,
                             .threads = 256};
  LaunchShape by_column = by_chunk;
  by_column.grid_x = args.value_dim / kGdnScanColumns;
  KV8_RETURN_IF_ERROR(stream.Launch(
      Get(small ? KernelId::kGdnChunkWeigh32 : KernelId::kGdnChunkWeigh128), by_chunk, &args));
  KV8_RETURN_IF_ERROR(stream.Launch(
      Get(small ? KernelId::kGdnChunkScan32 : KernelId::kGdnChunkScan128), by_column, &args));
  return stream.Launch(Get(small ? KernelId::kGdnChunkNorm32 : KernelId::kGdnChunkNorm128),
                       by_chunk, &args);
}

}  // namespace kv8::cuda
