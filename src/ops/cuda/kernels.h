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
