// Copies of items between arrays: gathered rows, states of slots, pages of pools.
#pragma once

#include <cstdint>

namespace kv8::cuda {

/// Item i of the source starts i * from_stride bytes after `from`, likewise for the target.
struct CopyArray {
  const unsigned char* from;
  unsigned char* to;
  std::int64_t from_stride, to_stride;
  std::int64_t bytes;  // of an item; like both strides and addresses a multiple of 4
};

/// Item `from` becomes item `to`; nothing happens when `to` is negative.
struct CopyPair {
  std::int32_t from, to;
};
inline constexpr int kMaxCopyPairs = 64;
/// Bytes that one block of the kernel copies.
inline constexpr std::int64_t kCopyPieceBytes = 16384;

/// For every array and pair: to[pair.to] = from[pair.from].
///
/// Shapes   arrays [array_count] and pairs [pair_count] in device memory; without `pairs` the first
///          pair_count, at most kMaxCopyPairs, of `own_pairs`
/// Effects  writes the targets, which must not overlap each other or any source
struct CopyItemsArgs {
  const CopyArray* arrays;
  std::int32_t array_count;
  std::int32_t pair_count;
  std::int64_t largest;  // bytes of any array's items
  const CopyPair* pairs;
  CopyPair own_pairs[kMaxCopyPairs];
};

}  // namespace kv8::cuda
