// What an E4M3 cache makes of the K and V it gets.
#pragma once

#include <span>
#include <vector>

#include "kvcache/kv_cache.h"
#include "proof/attention.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Counts K and V of one layer after the other, in the order of `scales`; a pass begins with the
/// first.
class StoredValues {
 public:
  StoredValues(std::span<const StoreScales> scales, int kv_heads)
      : scales_(scales.begin(), scales.end()), kv_heads_(kv_heads), sides_(2 * scales.size()) {}

  void BeginPass() { next_ = 0; }
  /// k, v [T,kv_heads*head_dim], before they are rounded.
  void Add(int layer, ConstMatrix k, ConstMatrix v);
  const std::vector<StoredSide>& sides() const { return sides_; }

 private:
  void Count(ConstMatrix x, float scale, StoredSide& side) const;

  std::vector<StoreScales> scales_;
  int kv_heads_;
  std::size_t next_ = 0;           // layer of the pass
  std::vector<StoredSide> sides_;  // K and V of each layer in turn
};

}  // namespace kv8
