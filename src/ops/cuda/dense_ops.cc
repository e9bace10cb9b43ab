// Launches of linear, embedding, n-gram memory, norms, hyper-connections and experts.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernel_limits.h"

namespace kv8::cuda {
namespace {

constexpr int kFewRowsWarps = 4;  // of most products' thread blocks for few rows
constexpr int kDenseThreads = 256;
constexpr int kTokenThreads = 512;         // of Argmax and ChooseTokens
constexpr int kChoiceThreadBlocks = 1024;  // of all rows together: enough for every multiprocessor
/// From so many pairs per expert on, experts go through tiles.
constexpr int kTilePairs = 4;

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

/// Of `weight_rows` rows of one output each.
std::int64_t WeightThreadBlocks(const LinearArgs& args, int weight_rows) {
  std::int64_t count = 0;
  for (int i = 0; i < args.count; ++i) {
    count += CeilDiv(args.outputs[i].weight.rows, std::int64_t{weight_rows});
  }
  return count;
}

/// A launch over `columns` elements of each row.
LaunchShape RowShape(std::int64_t columns, std::int64_t rows) {
  return {.grid_x = CeilDiv(columns, std::int64_t{kDenseThreads}),
          .grid_y = rows,
          .threads = kDenseThreads};
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

TileShape CudaOps::MakeTile(std::int32_t columns, int parts) const {
  const std::int32_t room = max_shared_bytes_ - kTileStaticBytes - kTileAlignment;
  const auto stages = [&] { return room / TileStageBytes(columns, parts); };
  while (stages() < 2) columns /= 2;
  return {columns, std::min(stages(), tile_threads_ == kMmaTileThreads ? 3 : kMaxTileStages)};
}

TileShape CudaOps::ChooseTile(std::int64_t weight_tiles, std::int64_t rows, int parts) const {
  constexpr std::int64_t kWeightCost = 64;  // a tile's weights, as activation rows
  static constexpr std::int32_t kMmaColumns[] = {32, 64, 128};
  static constexpr std::int32_t kWgmmaColumns[] = {16, 32, 64, 128, 256};
  std::span<const std::int32_t> choices = kWgmmaColumns;
  if (tile_threads_ == kMmaTileThreads) choices = kMmaColumns;
  if (parts == 2 && choices.back() > kMmaTileColumns) choices = choices.first(choices.size() - 1);
  std::int32_t best = choices.front();
  std::int64_t least = 0;
  for (const std::int32_t columns : choices) {
    const std::int64_t tiles = weight_tiles * CeilDiv(rows, std::int64_t{columns});
    const std::int64_t cost =
        CeilDiv(tiles, std::int64_t{multiprocessors_}) * (columns + kWeightCost);
    if (least == 0 || cost <= least) least = cost, best = columns;
    if (columns >= rows) break;
  }
  return MakeTile(best, parts);
}

/// Most experts' pairs fit into one tile.
TileShape CudaOps::ExpertTileOf(std::int64_t mean_pairs, int parts) const {
  const bool mma = tile_threads_ == kMmaTileThreads;
  std::int32_t columns = mma ? 32 : 16;
  while (columns < kMmaTileColumns && 2 * columns < 3 * mean_pairs) columns *= 2;
  if (!mma && parts == 1 && 2 * columns < 3 * mean_pairs) columns = kWgmmaExpertColumns;
  return MakeTile(columns, parts);
}

LaunchShape CudaOps::TileLaunch(std::int64_t tiles, const TileShape& tile, int parts) const {
  const int shared = tile.stages * TileStageBytes(tile.columns, parts) + kTileAlignment;
  // A multiprocessor has room for one thread block with wgmma, else for two at most.
  const int room = tile_threads_ == kMmaTileThreads && 2 * shared <= max_shared_bytes_ ? 2 : 1;
  return {.grid_x = std::min(tiles, std::int64_t{room} * multiprocessors_),
          .threads = tile_threads_,
          .shared_bytes = shared};
}

Result<void> CudaOps::RoundRows(DeviceStream& stream, const RoundArgs& args) const {
  return stream.Launch(Get(KernelId::kRoundRows), RowShape(args.inner / 4, args.rows), &args);
}

Result<void> CudaOps::Linear(DeviceStream& stream, LinearArgs args) const {
  constexpr std::string_view kOp = "linear";
  KV8_RETURN_IF_ERROR(CheckInner(kOp, args.inner / args.splits));
  const WeightFormat format = args.outputs[0].weight.format;
  for (int i = 0; i < args.count; ++i) {
    KV8_RETURN_IF_ERROR(CheckFormats(kOp, format, {&args.outputs[i].weight, 1}));
  }
  const auto thread_blocks = [&args](int weight_rows) {
    return WeightThreadBlocks(args, weight_rows);
  };
  if (args.rows <= kFewRows) {
    const bool many = thread_blocks(16 * kFewRowsWarps) * args.splits >= multiprocessors_;
    const int warps = many ? kFewRowsWarps : 1;
    KV8_ASSIGN_OR_RETURN(
        const DeviceKernel* const kernel,
        Product(kOp, many ? ProductForm::kLinearRows4 : ProductForm::kLinearRows1, format));
    return stream.Launch(
        *kernel,
        {.grid_x = thread_blocks(16 * warps), .grid_z = args.splits, .threads = 32 * warps}, &args);
  }
  const int parts = args.activation_parts;
  const std::int64_t weight_tiles = thread_blocks(kTileRows);
  args.tile = ChooseTile(weight_tiles * args.splits, args.rows, parts);
  const bool narrow = args.tile.columns <= kNarrowTileColumns;
  KV8_ASSIGN_OR_RETURN(
      const DeviceKernel* const kernel,
      Product(kOp, narrow ? ProductForm::kLinearNarrow : ProductForm::kLinearWide, format));
  if (!args.is_rounded) {
    KV8_RETURN_IF_ERROR(
        RoundRows(stream, {args.x, args.x_stride, args.rows, args.inner, parts, args.rounded}));
  }
  return stream.Launch(
      *kernel,
      TileLaunch(weight_tiles * CeilDiv(args.rows, args.tile.columns) * args.splits, args.tile,
                 parts),
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
  mix.rounds = args.rows > kFewRows;
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
               .splits = mix.splits,
               .rounded = args.rounded,
               .activation_parts = args.activation_parts,
               .is_rounded = true}));
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kHyperActivate),
                                    RowShape(low + args.stream_count, args.rows), &mix));
  return HyperUp(stream, mix);
}

Result<void> CudaOps::HyperUp(DeviceStream& stream, const HyperMixArgs& args) const {
  if (args.rounds) {
    const auto low = static_cast<std::int32_t>(args.down.rows);
    KV8_RETURN_IF_ERROR(Linear(stream, {.x = args.low,
                                        .x_stride = low,
                                        .rows = args.rows,
                                        .inner = low,
                                        .count = 1,
                                        .outputs = {{args.up, args.parts, args.up.rows}},
                                        .rounded = args.rounded_low,
                                        .activation_parts = args.activation_parts,
                                        .is_rounded = true}));
    return stream.Launch(Get(KernelId::kHyperMean), RowShape(args.hidden / 4, args.rows), &args);
  }
  KV8_ASSIGN_OR_RETURN(const DeviceKernel* const kernel,
                       Product("hyper_mix", ProductForm::kHyperUp, args.up.format));
  return stream.Launch(*kernel,
                       {.grid_x = CeilDiv(args.hidden, kHyperUpWarps * kHyperUpWarpDims),
                        .threads = 32 * kHyperUpWarps},
                       &args);
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
               .outputs = {{args.key, args.keys, width}, {args.value, args.values, args.hidden}},
               .rounded = args.rounded,
               .activation_parts = args.activation_parts}));
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
  using enum ProductForm;
  const std::int32_t columns = args.tile.columns;
  const bool tiles = columns > kFewRows, narrow = columns <= kNarrowTileColumns;
  const WeightFormat format = args.gate_up.first.format;
  KV8_ASSIGN_OR_RETURN(const DeviceKernel* const gate_up, Product("moe",
                                                                  !tiles   ? kMoeGateUpRows
                                                                  : narrow ? kMoeGateUpNarrow
                                                                           : kMoeGateUpWide,
                                                                  format));
  KV8_ASSIGN_OR_RETURN(const DeviceKernel* const down, Product("moe",
                                                               !tiles   ? kMoeDownRows
                                                               : narrow ? kMoeDownNarrow
                                                                        : kMoeDownWide,
                                                               format));
  const std::int64_t activation_tiles =
      CeilDiv(args.rows, columns) +
      MaxExpertTiles(args.experts, std::int64_t{args.rows} * args.experts_per_token, columns);
  const auto shape = [&](std::int64_t weight_rows) -> LaunchShape {
    if (tiles) {
      return TileLaunch(CeilDiv(weight_rows, std::int64_t{kTileRows}) * activation_tiles, args.tile,
                        args.activation_parts);
    }
    return {.grid_x = CeilDiv(weight_rows, std::int64_t{16 * kFewRowsWarps}),
            .grid_y = activation_tiles,
            .threads = 32 * kFewRowsWarps};
  };
  KV8_RETURN_IF_ERROR(
      stream.Launch(*gate_up, shape(2 * std::max(args.expert_dim, args.shared_dim)), &args));
  return stream.Launch(*down, shape(args.hidden), &args);
}

/// Logits, the experts of each row and the rows of each expert.
Result<void> CudaOps::Route(DeviceStream& stream, const MoeArgs& args) const {
  KV8_RETURN_IF_ERROR(Linear(stream, {.x = args.x,
                                      .x_stride = args.hidden,
                                      .rows = args.rows,
                                      .inner = args.hidden,
                                      .count = 2,
                                      .outputs = {{args.router, args.logits, args.experts},
                                                  {args.shared_gate, args.shared_gate_value, 1}},
                                      .rounded = args.rounded,
                                      .activation_parts = args.activation_parts}));
  if (args.rows <= kMoeOneKernelRows) {
    return stream.Launch(Get(KernelId::kMoeRouteGroup), {.threads = kMaxExperts}, &args);
  }
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kMoeRoute),
                                    {.grid_x = CeilDiv(args.rows, 4), .threads = 128}, &args));
  KV8_RETURN_IF_ERROR(stream.Launch(Get(KernelId::kMoeGroup), {.threads = kMaxExperts}, &args));
  return stream.Launch(Get(KernelId::kMoePlace),
                       RowShape(std::int64_t{args.rows} * args.experts_per_token, 1), &args);
}

Result<void> CudaOps::Moe(DeviceStream& stream, MoeArgs args) const {
  KV8_RETURN_IF_ERROR(CheckMoe(args));
  const std::int64_t mean =
      CeilDiv(std::int64_t{args.rows} * args.experts_per_token, std::int64_t{args.experts});
  args.tile = {.columns = kFewRows};
  if (args.rows > kFewRows && mean >= kTilePairs) {
    args.tile = ExpertTileOf(mean, args.activation_parts);
  }
  KV8_RETURN_IF_ERROR(Route(stream, args));
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
