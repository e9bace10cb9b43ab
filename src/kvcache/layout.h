// Byte layout of the paged caches: the one place that knows it. Source: docs/spec/kv-page.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv8/types.h"

namespace kv8 {

/// Which page of a pool.
enum class PageId : std::int32_t {};

/// Bytes of one stored element.
constexpr std::int64_t SizeOf(KvDType dtype) {
  return dtype == KvDType::kFp32 ? 4 : dtype == KvDType::kFp16 ? 2 : 1;
}

/// [page][K|V][kv head][64 tokens][head_dim]: the tokens of one head are contiguous, so a
/// selection block of 4 tokens is one run of bytes.
struct KvLayout {
  KvDType dtype = KvDType::kFp16;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;

  constexpr std::int64_t token_bytes() const { return head_dim * SizeOf(dtype); }
  constexpr std::int64_t page_bytes() const { return 2 * kv_heads * kPageTokens * token_bytes(); }
  /// Offset of one token's vector inside a pool.
  constexpr std::int64_t Offset(PageId page, KvSide side, std::int64_t head,
                                std::int64_t token_in_page) const {
    const std::int64_t row =
        (static_cast<std::int64_t>(side) * kv_heads + head) * kPageTokens + token_in_page;
    return static_cast<std::int64_t>(page) * page_bytes() + row * token_bytes();
  }
};
static_assert(KvLayout{KvDType::kE4M3, 2, 256}.page_bytes() == 64 * 1024);
static_assert(KvLayout{KvDType::kFp16, 2, 256}.Offset(PageId{70'000}, KvSide::kValue, 1, 3) ==
              70'000LL * 131'072 + (3 * 64 + 3) * 512);

/// Compressed index keys, [page][64 / ratio][index_dim], FP16 (FP32 when the K/V cache is FP32).
struct IndexLayout {
  bool fp32 = false;
  std::int64_t keys_per_page = 0;  // kPageTokens / tokens per selection block
  std::int64_t index_dim = 0;

  constexpr std::int64_t key_bytes() const { return index_dim * (fp32 ? 4 : 2); }
  constexpr std::int64_t page_bytes() const { return keys_per_page * key_bytes(); }
  /// Offset of selection block `key` (counted inside the page).
  constexpr std::int64_t Offset(PageId page, std::int64_t key_in_page) const {
    return static_cast<std::int64_t>(page) * page_bytes() + key_in_page * key_bytes();
  }
};

/// Stored values that lost more than rounding: clipped, |x| > 448 * scale, or flushed, stored as 0
/// though x != 0. Only E4M3 stores count. The device counts in this order.
struct SaturationCount {
  std::uint64_t k = 0;  // clipped
  std::uint64_t v = 0;
  std::uint64_t flushed_k = 0;
  std::uint64_t flushed_v = 0;
};

/// One sequence's K/V in one layer: a pool and the pages that belong to the sequence, in token
/// order.
struct KvPages {
  std::byte* pool = nullptr;
  KvLayout layout;
  std::span<const PageId> table;
  float k_scale = 1.0f;  // real K = code * k_scale; 1 unless layout.dtype is kE4M3
  float v_scale = 1.0f;

  /// Vector of the token at sequence position `position`.
  std::byte* At(KvSide side, std::int64_t head, std::int64_t position) const {
    return pool + layout.Offset(table[static_cast<std::size_t>(position / kPageTokens)], side, head,
                                position % kPageTokens);
  }
};

/// One sequence's compressed index keys in one layer; same page table as its KvPages.
struct IndexPages {
  std::byte* pool = nullptr;
  IndexLayout layout;
  std::span<const PageId> table;

  /// Key of selection block `key` of the sequence.
  std::byte* At(std::int64_t key) const {
    return pool + layout.Offset(table[static_cast<std::size_t>(key / layout.keys_per_page)],
                                key % layout.keys_per_page);
  }
};

/// Raw index keys of the last tokens, [kIndexRingTokens][index_dim] FP32, slot = position %
/// kIndexRingTokens: a complete selection block never needs them again. 16 covers an open one and a
/// verification window with room to spare.
inline constexpr std::int64_t kIndexRingTokens = 16;

}  // namespace kv8
