// One sequence's pages for op tests: a scattered page table over pools whose unused bytes are NaN
// in every element type.
#pragma once

#include <cstring>
#include <vector>

#include "ops/cpu/kv_element.h"
#include "ops/qsa.h"

namespace kv8 {

struct PagedSequence {
  PagedSequence(const QsaConfig& config, KvDType dtype, std::int64_t tokens)
      : kv_layout{dtype, config.kv_heads, config.head_dim},
        index_layout{dtype == KvDType::kFp32, kPageTokens / config.selection_block_tokens,
                     config.index_dim} {
    const std::int64_t count = (tokens + kPageTokens - 1) / kPageTokens;
    for (std::int64_t i = 0; i < count; ++i) {
      table.push_back(static_cast<PageId>(2 * (count - i) - 1));  // reversed, every other one
    }
    const auto physical = static_cast<std::size_t>(2 * count + 1);
    kv_pool.assign(physical * static_cast<std::size_t>(kv_layout.page_bytes()), kPoison);
    index_pool.assign(physical * static_cast<std::size_t>(index_layout.page_bytes()), kPoison);
    ring.assign(static_cast<std::size_t>(kIndexRingTokens * config.index_dim), 0.0f);
  }

  QsaSlice Slice(std::int64_t row_begin, std::int64_t row_count, std::int64_t first_position) {
    return {row_begin,
            row_count,
            first_position,
            {kv_pool.data(), kv_layout, table, k_scale, v_scale},
            {index_pool.data(), index_layout, table},
            ring};
  }

  /// Stores one token's vector through the scalar codec.
  void Put(KvSide side, std::int64_t head, std::int64_t position, const float* values) {
    const QsaSlice slice = Slice(0, 0, 0);
    std::byte* const to = slice.kv.At(side, head, position);
    const float scale = side == KvSide::kKey ? k_scale : v_scale;
    for (std::int64_t i = 0; i < kv_layout.head_dim; ++i) {
      StoreKvElement(kv_layout.dtype, values[i], scale, to, i);
    }
  }

  /// Stores one selection block's key.
  void PutIndexKey(std::int64_t block, const float* values) {
    std::byte* const to = Slice(0, 0, 0).index.At(block);
    const KvDType dtype = index_layout.fp32 ? KvDType::kFp32 : KvDType::kFp16;
    for (std::int64_t i = 0; i < index_layout.index_dim; ++i) {
      StoreKvElement(dtype, values[i], 1.0f, to, i);
    }
  }

  static constexpr std::byte kPoison{0xFF};

  KvLayout kv_layout;
  IndexLayout index_layout;
  std::vector<PageId> table;
  std::vector<std::byte> kv_pool;
  std::vector<std::byte> index_pool;
  std::vector<float> ring;
  float k_scale = 1.0f;
  float v_scale = 1.0f;
};

}  // namespace kv8
