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

/// How a product is cut into thread blocks: weight rows x activation rows of a thread block, or
/// activation rows where the weight rows are the op's own.
enum class ProductForm : int {
  kLinear16x8,
  kLinear32x8,
  kLinear32x16,
  kLinear32x32,
  kLinearTiles,
  kMoeGateUp8,
  kMoeGateUp32,
  kMoeDown8,
  kMoeDown32,
  kHyperUp8,
  kHyperUp32
};

struct ProductKernel {
  ProductForm form;
  WeightFormat format;
  KernelName name;
};
#define KV8_PRODUCTS(format, name)                                                     \
  {ProductForm::kLinear16x8, format, {"linear", "kv8_linear_" name "_16x8"}},          \
      {ProductForm::kLinear32x8, format, {"linear", "kv8_linear_" name "_32x8"}},      \
      {ProductForm::kLinear32x16, format, {"linear", "kv8_linear_" name "_32x16"}},    \
      {ProductForm::kLinear32x32, format, {"linear", "kv8_linear_" name "_32x32"}},    \
      {ProductForm::kLinearTiles, format, {"linear_tiles", "kv8_linear_tiles_" name}}, \
      {ProductForm::kMoeGateUp8, format, {"moe", "kv8_moe_gate_up_" name "_8"}},       \
      {ProductForm::kMoeGateUp32, format, {"moe", "kv8_moe_gate_up_" name "_32"}},     \
      {ProductForm::kMoeDown8, format, {"moe", "kv8_moe_down_" name "_8"}},            \
      {ProductForm::kMoeDown32, format, {"moe", "kv8_moe_down_" name "_32"}},          \
      {ProductForm::kHyperUp8, format, {"hyper_up", "kv8_hyper_up_" name "_8"}}, {     \
    ProductForm::kHyperUp32, format, {                                                 \
      "hyper_up", "kv8_hyper_up_" name "_32"                                           \
    }                                                                                  \
  }
/// All that there are: what a (form, format) without a row here asks for is refused by name.
inline constexpr ProductKernel kProductKernels[] = {KV8_PRODUCTS(WeightFormat::kBf16, "bf16"),
                                                    KV8_PRODUCTS(WeightFormat::kFp16, "fp16")};
#undef KV8_PRODUCTS
inline constexpr std::size_t kProductKernelCount = std::size(kProductKernels);

}  // namespace kv8::cuda
