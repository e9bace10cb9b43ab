// Attention of single rows under A and B, summed up for a layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/observer.h"
#include "proof/attention.h"
#include "tensor/layer_config.h"

namespace kv8 {

/// What the attention layers of one pass chose and gave, in their order.
struct ObservedLayer {
  int number = 0;
  std::int64_t budget = 0;           // blocks of a row in `blocks`
  std::vector<std::int32_t> blocks;  // [T,budget]
  std::vector<std::int32_t> counts;  // [T]
  std::int64_t width = 0;
  std::vector<float> output;  // [T,width]

  std::span<const std::int32_t> BlocksOf(std::int64_t row) const;
  std::span<const float> OutputOf(std::int64_t row) const;
};

/// Sums over rows; Mean() makes a LayerAttention of them.
class AttentionSums {
 public:
  /// Rows of one pass: row i has position first_position + i.
  void Add(const QsaConfig& qsa, std::int64_t first_position, const ObservedLayer& a,
           const ObservedLayer& b);
  LayerAttention Mean() const;

 private:
  void AddChoice(std::span<const std::int32_t> a, std::span<const std::int32_t> b);
  void AddOutput(std::span<const float> a, std::span<const float> b);

  int layer_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t choosing_ = 0;
  double jaccard_ = 0;
  double recall_ = 0;
  double cosine_ = 0;
  double difference_squares_ = 0;
  double a_squares_ = 0;
};

}  // namespace kv8
