#include "proof/stored_values.h"

#include "numeric/e4m3.h"

namespace kv8 {
namespace {

constexpr std::uint8_t kMagnitude = 0x7F;

}  // namespace

void StoredValues::Add(int layer, ConstMatrix k, ConstMatrix v) {
  const StoreScales& scales = scales_[next_];
  StoredSide& key = sides_[2 * next_];
  StoredSide& value = sides_[2 * next_ + 1];
  key.layer = value.layer = layer;
  value.value = true;
  Count(k, scales.k, key);
  Count(v, scales.v, value);
  ++next_;
}

void StoredValues::Count(ConstMatrix x, float scale, StoredSide& side) const {
  side.clipped.resize(static_cast<std::size_t>(kv_heads_));
  const std::int64_t head_dim = x.cols / kv_heads_;
  side.values += static_cast<std::uint64_t>(x.rows * head_dim);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t col = 0; col < x.cols; ++col) {
      const float real = x.row(row)[static_cast<std::size_t>(col)];
      ++side.codes[EncodeE4M3(real / scale) & kMagnitude];
      auto& clipped = side.clipped[static_cast<std::size_t>(col / head_dim)];
      for (std::size_t i = 0; i < kMargins.size(); ++i) {
        clipped[i] += SaturatesE4M3(real, scale * static_cast<float>(kMargins[i])) ? 1 : 0;
      }
    }
  }
}

}  // namespace kv8
