// Launches of linear, embedding, n-gram memory, norms, hyper-connections and experts.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/no_kernel.h"

namespace kv8::cuda {
namespace {

constexpr int kProductThreads = 128;
constexpr int kDenseThreads = 256;
/// From so many activation rows on a block takes 32 instead of 8 at a time.
constexpr int kWideRows = 9;

Result<void> CheckInner(std::string_view op, std::int64_t inner) {
  if (inner > 0 && inner % 32 == 0) return {};
  return NoKernel(op, fmt::format("the inner dimension is {}, the GPU has multiples of 32", inner));
}

Result<void> CheckTypes(std::string_view op, WeightType type, std::span<const WeightArray> all) {
  for (const WeightArray& weight : all) {
    if (weight.data != nullptr && weight.type != type) {
      return NoKernel(op, "its weights are partly BF16 and partly FP16, the GPU has one type");
    }
  }
  return {};
}

/// A launch over `columns` elements of each row.
LaunchShape RowShape(std::int64_t columns, std::int64_t rows) {
  return {.grid_x = CeilDiv(columns, std::int64_t{kDenseThreads}),
          .grid_y = rows,
          .block = kDenseThreads};
}

}  // namespace

Result<void> CudaOps::Linear(DeviceStream& stream, const LinearArgs& args) const {
  constexpr std::string_view kOp = "linear";
  KV8_RETURN_IF_ERROR(CheckInner(kOp, args.inner));
  const WeightType type = args.outputs[0].weight.type;
  std::int64_t blocks = 0;
  for (int i = 0; i < args.count; ++i) {
    KV8_RETURN_IF_ERROR(CheckTypes(kOp, type, {&args.outputs[i].weight, 1}));
    blocks += CeilDiv(args.outputs[i].weight.rows, kLinearRows);
  }
  const bool wide = args.rows >= kWideRows, bf16 = type == WeightType::kBf16;
  const KernelId id = bf16 ? (wide ? KernelId::kLinearBf16x4 : KernelId::kLinearBf16x1)
                           : (wide ? KernelId::kLinearFp16x4 : KernelId::kLinearFp16x1);
  return stream.Launch(
      Get(id),
      {.grid_x = blocks, .grid_y = CeilDiv(args.rows, wide ? 32 : 8), .block = kProductThreads},
      &args);
}

Result<void> CudaOps::Embed(DeviceStream& stream, const EmbedArgs& args) const {
  return stream.Launch(Get(KernelId::kEmbed), RowShape(args.hidden, args.rows), &args);
}

Result<void> CudaOps::GroupedNorm(DeviceStream& stream, const GroupedNormArgs& args) const {
  return stream.Launch(Get(KernelId::kGroupedNorm),
                       {.grid_x = args.groups, .grid_y = args.rows, .block = kDenseThreads}, &args);
}

Result<void> CudaOps::HyperMix(DeviceStream& stream, const HyperMixArgs& args) const {
  const std::int32_t width = args.stream_count * args.hidden;
  KV8_RETURN_IF_ERROR(CheckInner("hyper_mix", args.down.rows));
  KV8_RETURN_IF_ERROR(GroupedNorm(stream, {.x = args.streams,
                                           .gain = args.gain,
                                           .out = args.normed,
                                           .rows = args.rows,
                                           .groups = args.stream_count,
                                           .dim = args.hidden,
                                           .eps = args.eps}));
  const bool inject = args.inject_weight.data != nullptr;
  KV8_RETURN_IF_ERROR(
      Linear(stream, {.x = args.normed,
                      .x_stride = width,
                      .rows = args.rows,
                      .inner = width,
                      .count = inject ? 2 : 1,
                      .outputs = {{args.down, args.low, args.down.rows},
                                  {args.inject_weight, args.inject, args.stream_count}}}));
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kHyperActivate),
                                    RowShape(args.down.rows + args.stream_count, args.rows),
                                    &args));
  KV8_RETURN_IF_ERROR(Linear(stream, {.x = args.low,
                                      .x_stride = args.down.rows,
                                      .rows = args.rows,
                                      .inner = args.down.rows,
                                      .count = 1,
                                      .outputs = {{args.up, args.gates, width}}}));
  return stream.Launch(Get(KernelId::kHyperReduce), RowShape(args.hidden, args.rows), &args);
}

Result<void> CudaOps::HyperCombine(DeviceStream& stream, const HyperCombineArgs& args) const {
  return stream.Launch(Get(KernelId::kHyperCombine), RowShape(args.hidden, args.rows), &args);
}

Result<void> CudaOps::Ple(DeviceStream& stream, const PleArgs& args) const {
  constexpr std::string_view kOp = "ple";
  if (args.ngram_size > kMaxNgram) {
    return NoKernel(
        kOp, fmt::format("ngram_size is {}, the GPU has up to {}", args.ngram_size, kMaxNgram));
  }
  const std::int32_t width = args.streams * args.hidden, inner = args.heads * args.head_dim;
  const std::int64_t rows = args.rows.count, slices = args.slices.count;
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kPleLookup),
                                    {.grid_x = args.heads, .grid_y = rows, .block = 32}, &args));
  KV8_RETURN_IF_ERROR(Linear(
      stream, {.x = args.memory,
               .x_stride = inner,
               .rows = args.rows.count,
               .inner = inner,
               .count = 2,
               .outputs = {{args.key, args.keys, width}, {args.value, args.values, args.hidden}}}));
  KV8_RETURN_IF_ERROR(
      stream.Launch(Get(KernelId::kPleGate),
                    {.grid_x = args.streams, .grid_y = rows, .block = kDenseThreads}, &args));
  LaunchShape by_slice = RowShape(width, slices);
  by_slice.grid_z = std::min<std::int64_t>(rows, 64);
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kPleConvolve), by_slice, &args));
  if (args.drafts > 0) {
    LaunchShape by_row = RowShape(width, args.verified.count);
    by_row.grid_z = args.drafts;
    KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kPleTrail), by_row, &args));
  }
  return stream.Launch(Get(KernelId::kPleAdvance), RowShape(width, slices), &args);
}

Result<void> CudaOps::CopyItems(DeviceStream& stream, const CopyItemsArgs& args) const {
  return stream.Launch(Get(KernelId::kCopyItems),
                       {.grid_x = CeilDiv(args.largest, kCopyBlockBytes),
                        .grid_y = args.array_count,
                        .grid_z = args.pair_count,
                        .block = 256},
                       &args);
}

Result<void> CudaOps::CheckMoe(const MoeArgs& args) const {
  constexpr std::string_view kOp = "moe";
  for (const std::int64_t inner : {args.hidden, args.expert_dim, args.shared_dim}) {
    KV8_RETURN_IF_ERROR(CheckInner(kOp, inner));
  }
  if (args.experts > kMaxExperts || args.experts_per_token > kMaxExpertsPerToken ||
      args.experts_per_token > args.experts) {
    return NoKernel(
        kOp, fmt::format("{} of {} experts per token, the GPU has up to {} of {}",
                         args.experts_per_token, args.experts, kMaxExpertsPerToken, kMaxExperts));
  }
  return CheckTypes(kOp, args.router.type,
                    std::array{args.gate_up, args.down, args.shared_gate_proj, args.shared_up_proj,
                               args.shared_down_proj, args.shared_gate});
}

Result<void> CudaOps::Experts(DeviceStream& stream, const MoeArgs& args) const {
  const std::int64_t pairs = std::int64_t{args.rows} * args.experts_per_token;
  const std::int64_t active = std::min<std::int64_t>(args.experts, pairs);
  const bool wide = pairs >= std::int64_t{kWideRows} * args.experts;
  const bool bf16 = args.router.type == WeightType::kBf16;
  const KernelId gate_up = bf16 ? (wide ? KernelId::kMoeGateUpBf16x4 : KernelId::kMoeGateUpBf16x1)
                                : (wide ? KernelId::kMoeGateUpFp16x4 : KernelId::kMoeGateUpFp16x1);
  const KernelId down = bf16 ? (wide ? KernelId::kMoeDownBf16x4 : KernelId::kMoeDownBf16x1)
                             : (wide ? KernelId::kMoeDownFp16x4 : KernelId::kMoeDownFp16x1);
  KV8_RETURN_IF_ERROR(stream.Launch(
      Get(gate_up), {.grid_x = args.expert_dim / 16, .grid_y = active, .block = kProductThreads},
      &args));
  return stream.Launch(
      Get(down), {.grid_x = args.hidden / kLinearRows, .grid_y = active, .block = kProductThreads},
      &args);
}

Result<void> CudaOps::Moe(DeviceStream& stream, const MoeArgs& args) const {
  KV8_RETURN_IF_ERROR(CheckMoe(args));
  const std::int64_t both = 2 * std::int64_t{args.shared_dim};
  KV8_RETURN_IF_ERROR(
      Linear(stream, {.x = args.x,
                      .x_stride = args.hidden,
                      .rows = args.rows,
                      .inner = args.hidden,
                      .count = 4,
                      .outputs = {{args.router, args.logits, args.experts},
                                  {args.shared_gate_proj, args.shared_hidden, both},
                                  {args.shared_up_proj, args.shared_hidden + args.shared_dim, both},
                                  {args.shared_gate, args.shared_gate_value, 1}}}));
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kMoeRoute),
                                    {.grid_x = CeilDiv(args.rows, 4), .block = 128}, &args));
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kMoeGroup), {.block = kMaxExperts}, &args));
  KV8_RETURN_IF_ERROR(Experts(stream, args));
  KV8_RETURN_IF_ERROR(
      stream.Launch(Get(KernelId::kMoeActivate), RowShape(args.shared_dim, args.rows), &args));
  KV8_RETURN_IF_ERROR(
      Linear(stream, {.x = args.shared_hidden,
                      .x_stride = both,
                      .rows = args.rows,
                      .inner = args.shared_dim,
                      .count = 1,
                      .outputs = {{args.shared_down_proj, args.shared_out, args.hidden}}}));
  return stream.Launch(Get(KernelId::kMoeSum), RowShape(args.hidden, args.rows), &args);
}

}  // namespace kv8::cuda
