// Every kernel, and the source it stands in.
#pragma once

#include <cstddef>
#include <string_view>

namespace kv8::cuda {

/// X(id, source, kernel)
#define KV8_KERNELS(X)                                                       \
  X(kQsaStore, "qsa_store", "kv8_qsa_store")                                 \
  X(kIndexScores64, "select_blocks", "kv8_index_scores_64")                  \
  X(kIndexScores128, "select_blocks", "kv8_index_scores_128")                \
  X(kChooseBlocks, "select_blocks", "kv8_choose_blocks")                     \
  X(kAttentionFp16d64, "sparse_attention", "kv8_sparse_attention_fp16_64")   \
  X(kAttentionFp16d128, "sparse_attention", "kv8_sparse_attention_fp16_128") \
  X(kAttentionFp16d256, "sparse_attention", "kv8_sparse_attention_fp16_256") \
  X(kAttentionE4M3d64, "sparse_attention", "kv8_sparse_attention_e4m3_64")   \
  X(kAttentionE4M3d128, "sparse_attention", "kv8_sparse_attention_e4m3_128") \
  X(kAttentionE4M3d256, "sparse_attention", "kv8_sparse_attention_e4m3_256") \
  X(kLinearBf16x1, "linear", "kv8_linear_bf16_1")                            \
  X(kMoeGateUpBf16x1, "moe", "kv8_moe_gate_up_bf16_1")                       \
  X(kMoeDownBf16x1, "moe", "kv8_moe_down_bf16_1")                            \
  X(kLinearBf16x4, "linear", "kv8_linear_bf16_4")                            \
  X(kMoeGateUpBf16x4, "moe", "kv8_moe_gate_up_bf16_4")                       \
  X(kMoeDownBf16x4, "moe", "kv8_moe_down_bf16_4")                            \
  X(kLinearFp16x1, "linear", "kv8_linear_fp16_1")                            \
  X(kMoeGateUpFp16x1, "moe", "kv8_moe_gate_up_fp16_1")                       \
  X(kMoeDownFp16x1, "moe", "kv8_moe_down_fp16_1")                            \
  X(kLinearFp16x4, "linear", "kv8_linear_fp16_4")                            \
  X(kMoeGateUpFp16x4, "moe", "kv8_moe_gate_up_fp16_4")                       \
  X(kMoeDownFp16x4, "moe", "kv8_moe_down_fp16_4")                            \
  X(kEmbed, "dense", "kv8_embed")                                            \
  X(kGroupedNorm, "dense", "kv8_grouped_norm")                               \
  X(kHyperActivate, "dense", "kv8_hyper_activate")                           \
  X(kHyperReduce, "dense", "kv8_hyper_reduce")                               \
  X(kHyperCombine, "dense", "kv8_hyper_combine")                             \
  X(kMoeRoute, "moe", "kv8_moe_route")                                       \
  X(kMoeGroup, "moe", "kv8_moe_group")                                       \
  X(kMoeActivate, "moe", "kv8_moe_activate")                                 \
  X(kMoeSum, "moe", "kv8_moe_sum")                                           \
  X(kPleLookup, "ple", "kv8_ple_lookup")                                     \
  X(kPleGate, "ple", "kv8_ple_gate")                                         \
  X(kPleConvolve, "ple", "kv8_ple_convolve")                                 \
  X(kPleTrail, "ple", "kv8_ple_trail")                                       \
  X(kPleAdvance, "ple", "kv8_ple_advance")                                   \
  X(kCopyItems, "slots", "kv8_copy_items")                                   \
  X(kGdnConv32, "gdn", "kv8_gdn_conv_32")                                    \
  X(kGdnConv128, "gdn", "kv8_gdn_conv_128")                                  \
  X(kGdnConvState, "gdn", "kv8_gdn_conv_state")                              \
  X(kGdnRecurrence32, "gdn", "kv8_gdn_recurrence_32")                        \
  X(kGdnRecurrence128, "gdn", "kv8_gdn_recurrence_128")

enum class KernelId : int {
#define KV8_KERNEL_ID(id, source, kernel) id,
  KV8_KERNELS(KV8_KERNEL_ID)
#undef KV8_KERNEL_ID
};

struct KernelName {
  std::string_view source;
  std::string_view kernel;
};
inline constexpr KernelName kKernelNames[] = {
#define KV8_KERNEL_NAME(id, source, kernel) {source, kernel},
    KV8_KERNELS(KV8_KERNEL_NAME)
#undef KV8_KERNEL_NAME
};
#undef KV8_KERNELS
inline constexpr std::size_t kKernelCount = std::size(kKernelNames);

}  // namespace kv8::cuda
