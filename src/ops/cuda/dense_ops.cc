// Launches of linear, embedding, n-gram memory, norms, hyper-connections and experts.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernel_limits.h"

namespace kv8::cuda {
namespace {

constexpr int kProductThreads = 128;
constexpr int kTileThreads = 256;
constexpr int kDenseThreads = 256;
constexpr int kTokenThreads = 512;         // of Argmax and ChooseTokens
constexpr int kChoiceThreadBlocks = 1024;  // of all rows together: enough for every multiprocessor
/// From so many pairs per expert, or rows, on a thread block takes 32 instead of 8 at a time.
constexpr int kWideRows = 9;
/// Thread blocks of whole tiles must be about as many as multiprocessors, or most of these idle.
constexpr std::int64_t kFewestTileThreadBlocks = 80;
/// From so many thread blocks of 32 weight rows on there is work for all multiprocessors several
/// times over.
constexpr std::int64_t kManyThreadBlocks = 512;

Result<void> CheckInner(std::string_view op, std::int64_t inner) {
  return Check(op, "the inner dimension", inner, kInnerDims);
}

Result<void> CheckFormats(std::string_view op, WeightFormat format, std::span<const Weight> all) {
  for (const Weight& weight : all) {
    if (!weight.empty() && weight.format != format) {
      return NoKernel(op, fmt::format("its weights are partly {} and partly {}, the GPU has one "
                                      "format",
                                      Name(format), Name(weight.format)));
    }
  }
  return {};
}

/// A launch over `columns` elements of each row.
LaunchShape RowShape(std::int64_t columns, std::int64_t rows) {
  return {.grid_x = CeilDiv(columns, std::int64_t{kDenseThreads}),
          .grid_y = rows,
          .threads = kDenseThreads};
}

}  // namespace

namespace {

/// A form of linear. All give the same bits; which is fastest depends on the shape.
struct LinearForm {
  ProductForm form;
  int weight_rows, rows;  // of a thread block
  int threads = kProductThreads;
  int shared_bytes = 0;
};
constexpr LinearForm kLinear16x8{ProductForm::kLinear16x8, 16, 8};
constexpr LinearForm kLinear32x8{ProductForm::kLinear32x8, 32, 8};
constexpr LinearForm kLinear32x16{ProductForm::kLinear32x16, 32, 16};
constexpr LinearForm kLinear32x32{ProductForm::kLinear32x32, 32, 32};
constexpr LinearForm kLinearTiles{ProductForm::kLinearTiles, kLinearTileRows, kLinearTileColumns,
                                  kTileThreads, kLinearTileSharedBytes};

std::int64_t WeightThreadBlocks(const LinearArgs& args, int rows) {
  std::int64_t count = 0;
  for (int i = 0; i < args.count; ++i)
    count += CeilDiv(args.outputs[i].weight.rows, std::int64_t{rows});
  return count;
}

const LinearForm& ChooseLinear(const LinearArgs& args) {
  if (args.rows <= kLinear16x8.rows) {
    return WeightThreadBlocks(args, kLinear32x8.weight_rows) * args.splits >= kManyThreadBlocks
               ? kLinear32x8
               : kLinear16x8;
  }
  if (args.rows <= kLinear32x16.rows) return kLinear32x16;
  const std::int64_t tiles = WeightThreadBlocks(args, kLinearTileRows) *
                             CeilDiv(args.rows, kLinearTileColumns) * args.splits;
  return args.rows > kLinear32x32.rows && tiles >= kFewestTileThreadBlocks ? kLinearTiles
                                                                           : kLinear32x32;
}

}  // namespace

Result<const DeviceKernel*> CudaOps::Product(std::string_view op, ProductForm form,
                                             WeightFormat format) const {
  std::string have;
  for (std::size_t i = 0; i < kProductKernelCount; ++i) {
    const ProductKernel& kernel = kProductKernels[i];
    if (kernel.form != form) continue;
    if (kernel.format == format) return &products_[i];
    have += fmt::format("{}{}", have.empty() ? "" : ", ", Name(kernel.format));
  }
  return NoKernel(op, fmt::format("weights are {}, the GPU has {}", Name(format), have));
}

Result<void> CudaOps::Linear(DeviceStream& stream, const LinearArgs& args) const {
  constexpr std::string_view kOp = "linear";
  KV8_RETURN_IF_ERROR(CheckInner(kOp, args.inner / args.splits));
  const WeightFormat format = args.outputs[0].weight.format;
  for (int i = 0; i < args.count; ++i) {
    KV8_RETURN_IF_ERROR(CheckFormats(kOp, format, {&args.outputs[i].weight, 1}));
  }
  const LinearForm& form = ChooseLinear(args);
  KV8_ASSIGN_OR_RETURN(const DeviceKernel* const kernel, Product(kOp, form.form, format));
  return stream.Launch(*kernel,
                       {.grid_x = WeightThreadBlocks(args, form.weight_rows),
                        .grid_y = CeilDiv(args.rows, form.rows),
                        .grid_z = args.splits,
                        .threads = form.threads,
                        .shared_bytes = form.shared_bytes},
                       &args);
}

Result<void> CudaOps::Embed(DeviceStream& stream, const EmbedArgs& args) const {
  return stream.Launch(Get(KernelId::kEmbed), RowShape(args.hidden, args.rows), &args);
}

Result<void> CudaOps::GroupedNorm(DeviceStream& stream, const GroupedNormArgs& args) const {
  return stream.Launch(Get(KernelId::kGroupedNorm),
                       {.grid_x = args.groups, .grid_y = args.rows, .threads = kDenseThreads},
                       &args);
}

Result<void> CudaOps::HyperMix(DeviceStream& stream, const HyperMixArgs& args) const {
  constexpr std::string_view kOp = "hyper_mix";
  const std::int32_t width = args.stream_count * args.hidden;
  const auto low = static_cast<std::int32_t>(args.down.rows);
  KV8_RETURN_IF_ERROR(CheckInner(kOp, low));
  KV8_RETURN_IF_ERROR(CheckFormats(kOp, args.down.format, {&args.up, 1}));
  KV8_RETURN_IF_ERROR(Check(kOp, "the number of streams", args.stream_count, kStreamCounts));
  KV8_RETURN_IF_ERROR(Check(kOp, "the width of a stream", args.hidden, {.multiple_of = 8}));
  if (HyperPartsOfWidth(low, args.stream_count, width) > 1) {
    return NoKernel(kOp, fmt::format("the low rank is {}, the GPU has up to {}", low,
                                     width / kHyperSplits - kHyperStreams));
  }
  HyperMixArgs mix = args;
  mix.splits = width % (kHyperSplits * 32) == 0 ? kHyperSplits : 1;
  KV8_RETURN_IF_ERROR(stream.Launch(
      Get(KernelId::kHyperNorm),
      {.grid_x = args.stream_count, .grid_y = args.rows, .threads = kDenseThreads}, &mix));
  const std::int64_t inject_parts = std::int64_t{mix.splits} * args.rows * low;
  KV8_RETURN_IF_ERROR(Linear(
      stream, {.x = args.normed,
               .x_stride = width,
               .rows = args.rows,
               .inner = width,
               .count = args.inject_weight.empty() ? 1 : 2,
               .outputs = {{args.down, args.parts, low},
                           {args.inject_weight, args.parts + inject_parts, args.stream_count}},
               .splits = mix.splits}));
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kHyperActivate),
                                    RowShape(low + args.stream_count, args.rows), &mix));
  const bool wide = args.rows >= kWideRows;
  const ProductForm form = wide ? ProductForm::kHyperUp32 : ProductForm::kHyperUp8;
  KV8_ASSIGN_OR_RETURN(const DeviceKernel* const up, Product(kOp, form, args.up.format));
  return stream.Launch(*up,
                       {.grid_x = args.hidden / 8,
                        .grid_y = CeilDiv(args.rows, wide ? 32 : 8),
                        .threads = kProductThreads},
                       &mix);
}

Result<void> CudaOps::HyperCombine(DeviceStream& stream, const HyperCombineArgs& args) const {
  return stream.Launch(Get(KernelId::kHyperCombine), RowShape(args.hidden, args.rows), &args);
}

Result<void> CudaOps::Ple(DeviceStream& stream, const PleArgs& args) const {
  constexpr std::string_view kOp = "ple";
  KV8_RETURN_IF_ERROR(Check(kOp, "ngram_size", args.ngram_size, kNgramSizes));
  const std::int32_t width = args.streams * args.hidden, inner = args.heads * args.head_dim;
  const std::int64_t rows = args.rows.count, slices = args.slices.count;
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kPleLookup),
                                    {.grid_x = args.heads, .grid_y = rows, .threads = 32}, &args));
  KV8_RETURN_IF_ERROR(Linear(
      stream, {.x = args.memory,
               .x_stride = inner,
               .rows = args.rows.count,
               .inner = inner,
               .count = 2,
               .outputs = {{args.key, args.keys, width}, {args.value, args.values, args.hidden}}}));
  KV8_RETURN_IF_ERROR(
      stream.Launch(Get(KernelId::kPleGate),
                    {.grid_x = args.streams, .grid_y = rows, .threads = kDenseThreads}, &args));
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
                       {.grid_x = CeilDiv(args.largest, kCopyPieceBytes),
                        .grid_y = args.array_count,
                        .grid_z = args.pair_count,
                        .threads = 256},
                       &args);
}

Result<void> CudaOps::CheckMoe(const MoeArgs& args) const {
  constexpr std::string_view kOp = "moe";
  for (const std::int64_t inner : {args.hidden, args.expert_dim, args.shared_dim}) {
    KV8_RETURN_IF_ERROR(CheckInner(kOp, inner));
  }
  const std::int64_t chosen = args.experts_per_token;
  KV8_RETURN_IF_ERROR(Check(kOp, "the number of experts", args.experts, kExpertCounts));
  KV8_RETURN_IF_ERROR(Check(kOp, "experts per token", chosen, kExpertsPerToken));
  KV8_RETURN_IF_ERROR(Check(kOp, "experts per token", chosen, {.max = args.experts}));
  return CheckFormats(kOp, args.router.format,
                      std::array{args.gate_up.first, args.down.first, args.shared_gate_proj,
                                 args.shared_up_proj, args.shared_down_proj, args.shared_gate});
}

Result<void> CudaOps::Experts(DeviceStream& stream, const MoeArgs& args) const {
  const std::int64_t pairs = std::int64_t{args.rows} * args.experts_per_token;
  const bool wide = pairs >= std::int64_t{kWideRows} * args.experts;
  const WeightFormat format = args.gate_up.first.format;
  KV8_ASSIGN_OR_RETURN(
      const DeviceKernel* const gate_up,
      Product("moe", wide ? ProductForm::kMoeGateUp32 : ProductForm::kMoeGateUp8, format));
  KV8_ASSIGN_OR_RETURN(
      const DeviceKernel* const down,
      Product("moe", wide ? ProductForm::kMoeDown32 : ProductForm::kMoeDown8, format));
  const std::int64_t groups =
      CeilDiv(args.rows, wide ? 32 : 8) + std::min<std::int64_t>(args.experts, pairs);
  KV8_RETURN_IF_ERROR(
      stream.Launch(*gate_up,
                    {.grid_x = std::max(args.expert_dim, args.shared_dim) / kMoeGateRows,
                     .grid_y = groups,
                     .threads = kProductThreads},
                    &args));
  return stream.Launch(
      *down, {.grid_x = args.hidden / kMoeDownRows, .grid_y = groups, .threads = kProductThreads},
      &args);
}

Result<void> CudaOps::Moe(DeviceStream& stream, const MoeArgs& args) const {
  KV8_RETURN_IF_ERROR(CheckMoe(args));
  KV8_RETURN_IF_ERROR(Linear(stream, {.x = args.x,
                                      .x_stride = args.hidden,
                                      .rows = args.rows,
                                      .inner = args.hidden,
                                      .count = 2,
                                      .outputs = {{args.router, args.logits, args.experts},
                                                  {args.shared_gate, args.shared_gate_value, 1}}}));
  if (args.rows <= kMoeOneKernelRows) {
    KV8_RETURN_IF_ERROR(
        stream.Launch(Get(KernelId::kMoeRouteGroup), {.threads = kMaxExperts}, &args));
  } else {
    KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kMoeRoute),
                                      {.grid_x = CeilDiv(args.rows, 4), .threads = 128}, &args));
    KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kMoeGroup), {.threads = kMaxExperts}, &args));
  }
  KV8_RETURN_IF_ERROR(Experts(stream, args));
  return stream.Launch(Get(KernelId::kMoeSum), RowShape(args.hidden, args.rows), &args);
}

Result<void> CudaOps::Argmax(DeviceStream& stream, const ArgmaxArgs& args) const {
  return stream.Launch(
      Get(KernelId::kArgmax),
      {.grid_x = ArgmaxParts(args.vocab), .grid_y = args.rows, .threads = kTokenThreads}, &args);
}

Result<void> CudaOps::ChooseTokens(DeviceStream& stream, const ChooseTokensArgs& args) const {
  // Sums are exact: in how many parts they come about does not show.
  const LaunchShape shape{
      .grid_x = std::min(CeilDiv(args.vocab, kChoicePart), CeilDiv(kChoiceThreadBlocks, args.rows)),
      .grid_y = args.rows,
      .threads = kTokenThreads};
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kWeighTokens), shape, &args));
  return stream.Launch(Get(KernelId::kChooseTokens), shape, &args);
}

}  // namespace kv8::cuda
