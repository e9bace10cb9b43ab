// What the hybrid paged layout of vLLM makes of a pool: one pool of equal blocks, in which
// recurrent states take whole blocks beside K/V.
#pragma once

#include <cstdint>

#include "kv8/types.h"
#include "tensor/model_spec.h"

namespace kv8 {

struct VllmOptions {
  KvDType dtype = KvDType::kFp16;
  int drafts = 0;
  bool prefix_cache = false;
  std::int64_t max_model_len = 0;
};

/// Tokens that a rank's pool holds by vLLM's own count.
struct VllmPool {
  std::int64_t block_tokens = 0;
  std::int64_t block_bytes = 0;   // of one block id, all its owners
  std::int64_t fixed_blocks = 0;  // that one request takes beside its K/V
  std::int64_t sequence_blocks = 0;
  std::int64_t blocks = 0;  // ids
  std::int64_t tokens = 0;  // floor(blocks / sequence_blocks * max_model_len)
};

/// `rank` is a rank's part of `whole`, whose pool has `pool_bytes`; the request's fixed blocks
/// follow from the whole model, in every rank. Rules and the published figures that they reproduce:
/// docs/guide/plan.md.
VllmPool VllmPoolOf(const ModelSpec& whole, const ModelSpec& rank, const VllmOptions& options,
                    std::int64_t pool_bytes);

}  // namespace kv8
