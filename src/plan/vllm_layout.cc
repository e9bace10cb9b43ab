#include "plan/vllm_layout.h"

#include <algorithm>

#include "base/checked.h"
#include "kvcache/layout.h"

namespace kv8 {
namespace {

constexpr std::int64_t kHalf = 2, kFloat = 4;  // bytes

/// Of one GDN layer: the state in FP32, the convolution's window in FP16, a row longer per draft.
std::int64_t StateBytes(const GdnConfig& gdn, int drafts) {
  const std::int64_t state = std::int64_t{gdn.value_heads} * gdn.key_dim * gdn.value_dim * kFloat;
  return state + gdn.conv_channels() * (gdn.conv_kernel - 1 + drafts) * kHalf;
}

}  // namespace

VllmPool VllmPoolOf(const ModelSpec& whole, const ModelSpec& rank, const VllmOptions& options,
                    std::int64_t pool_bytes) {
  constexpr std::int64_t kTokenStep = 16;
  const std::int64_t main = rank.qsa.kv_values_per_token() * SizeOf(options.dtype);
  const std::int64_t index = rank.qsa.index_dim * kHalf / rank.qsa.selection_block_tokens;
  const std::int64_t attention = whole.KvLayers(false);
  const std::int64_t owners = rank.KvLayers(options.drafts > 0);
  VllmPool pool;
  // K and V of a block are at least a state: both live in the same blocks.
  pool.block_tokens = kTokenStep * CeilDiv(StateBytes(rank.gdn, options.drafts), kTokenStep * main);
  pool.block_bytes = owners * pool.block_tokens * (main + index);
  // As many GDN layers as there are attention layers share a block id; the n-gram memory has one.
  const std::int64_t groups =
      CeilDiv(std::int64_t{whole.GdnLayers()}, std::max<std::int64_t>(attention, 1)) +
      (whole.ple ? 1 : 0);
  const std::int64_t states = options.drafts + (options.prefix_cache ? 2 : 1);
  pool.fixed_blocks = groups * states + 1;
  pool.sequence_blocks = CeilDiv(options.max_model_len, pool.block_tokens) + pool.fixed_blocks;
  pool.blocks = pool_bytes / std::max<std::int64_t>(pool.block_bytes, 1);
  pool.tokens = pool.blocks * options.max_model_len / pool.sequence_blocks;
  return pool;
}

}  // namespace kv8
