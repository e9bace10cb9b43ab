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
  X(kPromptFp16d64, "prompt_attention", "kv8_prompt_attention_fp16_64")      \
  X(kPromptFp16d128, "prompt_attention", "kv8_prompt_attention_fp16_128")    \
  X(kPromptFp16d256, "prompt_attention", "kv8_prompt_attention_fp16_256")    \
  X(kPromptE4M3d64, "prompt_attention", "kv8_prompt_attention_e4m3_64")      \
  X(kPromptE4M3d128, "prompt_attention", "kv8_prompt_attention_e4m3_128")    \
  X(kPromptE4M3d256, "prompt_attention", "kv8_prompt_attention_e4m3_256")    \
  X(kLinear16x8Bf16, "linear", "kv8_linear_bf16_1x1")                        \
  X(kLinear32x8Bf16, "linear", "kv8_linear_bf16_2x1")                        \
  X(kLinear32x16Bf16, "linear", "kv8_linear_bf16_2x2")                       \
  X(kLinear32x32Bf16, "linear", "kv8_linear_bf16_2x4")                       \
  X(kLinearTilesBf16, "linear_tiles", "kv8_linear_tiles_bf16")               \
  X(kMoeGateUpBf16x1, "moe", "kv8_moe_gate_up_bf16_1")                       \
  X(kMoeDownBf16x1, "moe", "kv8_moe_down_bf16_1")                            \
  X(kHyperUpBf16x1, "hyper_up", "kv8_hyper_up_bf16_1")                       \
  X(kMoeGateUpBf16x4, "moe", "kv8_moe_gate_up_bf16_4")                       \
  X(kMoeDownBf16x4, "moe", "kv8_moe_down_bf16_4")                            \
  X(kHyperUpBf16x4, "hyper_up", "kv8_hyper_up_bf16_4")                       \
  X(kLinear16x8Fp16, "linear", "kv8_linear_fp16_1x1")                        \
  X(kLinear32x8Fp16, "linear", "kv8_linear_fp16_2x1")                        \
  X(kLinear32x16Fp16, "linear", "kv8_linear_fp16_2x2")                       \
  X(kLinear32x32Fp16, "linear", "kv8_linear_fp16_2x4")                       \
  X(kLinearTilesFp16, "linear_tiles", "kv8_linear_tiles_fp16")               \
  X(kMoeGateUpFp16x1, "moe", "kv8_moe_gate_up_fp16_1")                       \
  X(kMoeDownFp16x1, "moe", "kv8_moe_down_fp16_1")                            \
  X(kHyperUpFp16x1, "hyper_up", "kv8_hyper_up_fp16_1")                       \
  X(kMoeGateUpFp16x4, "moe", "kv8_moe_gate_up_fp16_4")                       \
  X(kMoeDownFp16x4, "moe", "kv8_moe_down_fp16_4")                            \
  X(kHyperUpFp16x4, "hyper_up", "kv8_hyper_up_fp16_4")                       \
  X(kEmbed, "dense", "kv8_embed")                                            \
  X(kGroupedNorm, "dense", "kv8_grouped_norm")                               \
  X(kHyperNorm, "dense", "kv8_hyper_norm")                                   \
  X(kHyperActivate, "dense", "kv8_hyper_activate")                           \
  X(kHyperCombine, "dense", "kv8_hyper_combine")                             \
  X(kMoeRoute, "moe", "kv8_moe_route")                                       \
  X(kMoeGroup, "moe", "kv8_moe_group")                                       \
  X(kMoeRouteGroup, "moe", "kv8_moe_route_group")                            \
  X(kMoeSum, "moe", "kv8_moe_sum")                                           \
  X(kArgmax, "argmax", "kv8_argmax")                                         \
  X(kWeighTokens, "choose_tokens", "kv8_weigh_tokens")                       \
  X(kChooseTokens, "choose_tokens", "kv8_choose_tokens")                     \
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
  X(kGdnRecurrence128, "gdn", "kv8_gdn_recurrence_128")                      \
  X(kGdnChunkWeigh32, "gdn_chunks", "kv8_gdn_chunk_weigh_32")                \
  X(kGdnChunkWeigh128, "gdn_chunks", "kv8_gdn_chunk_weigh_128")              \
  X(kGdnChunkScan32, "gdn_chunks", "kv8_gdn_chunk_scan_32")                  \
  X(kGdnChunkScan128, "gdn_chunks", "kv8_gdn_chunk_scan_128")                \
  X(kGdnChunkNorm32, "gdn_chunks", "kv8_gdn_chunk_norm_32")                  \
  X(kGdnChunkNorm128, "gdn_chunks", "kv8_gdn_chunk_norm_128")

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
