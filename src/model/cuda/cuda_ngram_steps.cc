// The n-gram memory's step.
#include <algorithm>

#include "model/cuda/cuda_steps.h"

namespace kv8::cuda {
namespace {

/// Sizes and weights of the n-gram memory.
PleArgs PleDimensions(const ModelSpec& model, const PleWeights& weights,
                      const DevicePleTable& table) {
  const PleConfig& config = *model.ple;
  PleArgs args{.streams = model.streams,
               .hidden = model.hidden,
               .heads = config.heads(),
               .head_dim = config.head_dim(),
               .heads_per_ngram = config.heads_per_ngram,
               .ngram_size = config.ngram_size,
               .conv_kernel = config.conv_kernel,
               .eos = weights.hash.eos,
               .eps = model.rms_eps,
               .head_sizes = table.head_sizes,
               .offsets = table.offsets,
               .shards = table.shards,
               .shard_rows = weights.shards.front().rows,
               .table_format = weights.shards.front().format,
               .key = weights.key,
               .value = weights.value,
               .gain_key = weights.gain_key.data(),
               .gain_query = weights.gain_query.data(),
               .gain_conv = weights.gain_conv.data(),
               .conv = weights.conv.data()};
  const std::vector<std::int64_t>& multipliers = weights.hash.multipliers;
  std::copy_n(multipliers.begin(), std::min<std::size_t>(multipliers.size(), kMaxNgram),
              args.multipliers);
  return args;
}

}  // namespace

Result<void> CudaSteps::NgramMemory(const PleWeights& weights, const LayerSpec& layer) {
  KV8_RETURN_IF_ERROR(Finish());
  PleArgs args = PleDimensions(m_.config, weights,
                               m_.weights.ple_tables[static_cast<std::size_t>(layer.ple_layer)]);
  args.ids = m_.inputs.ids();
  args.rows = m_.inputs.rows(shape_);
  args.slices = m_.inputs.slices(shape_);
  args.verified = m_.inputs.verified(shape_);
  args.drafts = shape_.rounds > 1 ? m_.drafts : 0;
  args.conv_state = m_.state.Slots<float>(StateKind::kPleConv, layer.ple_layer);
  args.context = m_.state.Slots<TokenId>(StateKind::kPleContext, layer.ple_layer);
  args.conv_trail = m_.state.Trails<float>(StateKind::kPleConv, layer.ple_layer);
  args.context_trail = m_.state.Trails<TokenId>(StateKind::kPleContext, layer.ple_layer);
  args.memory = w_.ple.memory;
  args.keys = w_.ple.keys;
  args.values = w_.ple.values;
  args.gated = w_.ple.gated;
  args.normed = w_.ple.normed;
  args.residual = streams_;
  args.rounded = w_.rounded;
  args.activation_parts = m_.activation_parts;
  return m_.ops.Ple(stream_, args);
}

}  // namespace kv8::cuda
