// Every kernel, and the source it stands in. Those that multiply with a weight exist once per form
// and format.
#pragma once

#include <cstddef>
#include <string_view>

#include "tensor/weight.h"

namespace kv8::cuda {

/// X(id, source, kernel)
#define KV8_KERNELS(X)                                                       \
  X(kKvObserve, "kv_observe", "kv8_kv_observe")                              \
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
  X(kEmbed, "dense", "kv8_embed")                                            \
  X(kGroupedNorm, "dense", "kv8_grouped_norm")                               \
  X(kHyperNorm, "dense", "kv8_hyper_norm")                                   \
  X(kHyperActivate, "dense", "kv8_hyper_activate")                           \
  X(kHyperMean, "dense", "kv8_hyper_mean")                                   \
  X(kHyperCombine, "dense", "kv8_hyper_combine")                             \
  X(kRoundRows, "linear_tiles", "kv8_round_rows")                            \
  X(kMoeRoute, "moe", "kv8_moe_route")                                       \
  X(kMoeGroup, "moe", "kv8_moe_group")                                       \
  X(kMoePlace, "moe", "kv8_moe_place")                                       \
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

/// Which product, and for few rows or by tiles of up to kNarrowTileColumns rows or of more.
enum class ProductForm : int {
  kLinearRows1,  // of thread blocks of one warp
  kLinearRows4,
  kLinearNarrow,
  kLinearWide,
  kMoeGateUpRows,
  kMoeGateUpNarrow,
  kMoeGateUpWide,
  kMoeDownRows,
  kMoeDownNarrow,
  kMoeDownWide,
  kHyperUp  // of few rows; of many it is a linear product
};
constexpr bool IsTiles(ProductForm form) {
  using enum ProductForm;
  return form == kLinearNarrow || form == kLinearWide || form == kMoeGateUpNarrow ||
         form == kMoeGateUpWide || form == kMoeDownNarrow || form == kMoeDownWide;
}

struct ProductKernel {
  ProductForm form;
  WeightFormat format;
  KernelName name;
};
/// X(form, source, name before the format's, name behind it)
#define KV8_PRODUCTS(X)                                                    \
  X(kLinearRows1, "linear", "kv8_linear_", "_rows1")                       \
  X(kLinearRows4, "linear", "kv8_linear_", "_rows4")                       \
  X(kLinearNarrow, "linear_tiles", "kv8_linear_narrow_tiles_", "")         \
  X(kLinearWide, "linear_tiles", "kv8_linear_wide_tiles_", "")             \
  X(kMoeGateUpRows, "experts", "kv8_moe_gate_up_", "_rows")                \
  X(kMoeGateUpNarrow, "expert_tiles", "kv8_moe_gate_up_narrow_tiles_", "") \
  X(kMoeGateUpWide, "expert_tiles", "kv8_moe_gate_up_wide_tiles_", "")     \
  X(kMoeDownRows, "experts", "kv8_moe_down_", "_rows")                     \
  X(kMoeDownNarrow, "expert_tiles", "kv8_moe_down_narrow_tiles_", "")      \
  X(kMoeDownWide, "expert_tiles", "kv8_moe_down_wide_tiles_", "")          \
  X(kHyperUp, "hyper_up", "kv8_hyper_up_", "")
/// All that there are: what a (form, format) without a row here asks for is refused by name.
inline constexpr ProductKernel kProductKernels[] = {
#define KV8_PRODUCT_KERNELS(form, source, before, behind)                   \
  {ProductForm::form, WeightFormat::kBf16, {source, before "bf16" behind}}, \
      {ProductForm::form, WeightFormat::kFp16, {source, before "fp16" behind}},
    KV8_PRODUCTS(KV8_PRODUCT_KERNELS)
#undef KV8_PRODUCT_KERNELS
};
#undef KV8_PRODUCTS
inline constexpr std::size_t kProductKernelCount = std::size(kProductKernels);

}  // namespace kv8::cuda
