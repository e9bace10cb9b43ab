// The pairs of an expert and the two products that a thread block makes for them.
#pragma once

#include "ops/cuda/moe.h"
#include "ops/cuda/product.cuh"

namespace kv8::cuda {

/// One expert's weights and some of its pairs, or some rows of the shared expert, whose pairs are
/// rows.
struct ExpertRows {
  const std::uint16_t *gate, *up, *down;
  int width;                  // F or Fs
  const std::int32_t* pairs;  // null: pair i is i
  int begin, end;
  int all_pairs, pairs_per_row;
  float* hidden;  // [all pairs,width], or as many rounded activations
  float* out;     // [all pairs,H]

  /// The pair of a column; -1: none.
  __device__ int Pair(int column) const {
    const int i = begin + column;
    return i >= end ? -1 : pairs == nullptr ? i : pairs[i];
  }
  /// Those of column, column + 1 and so on every 8 columns, all asked for before one is used.
  template <int kCount>
  __device__ __forceinline__ void Pairs(int column, int (&of)[kCount][2]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) of[i][j] = Pair(column + 8 * i + j);
    }
  }
  __device__ std::uint16_t* RoundedHidden() const {
    return reinterpret_cast<std::uint16_t*>(hidden);
  }
};

/// How many thread blocks or tiles of weight rows there are times activation rows: groups of
/// tile.columns rows of the shared expert, then the experts' tiles.
__device__ inline int CountExpertRows(const MoeArgs& a) {
  return (a.rows + a.tile.columns - 1) / a.tile.columns + a.tiles[0].expert;
}

__device__ inline ExpertRows FindExpertRows(const MoeArgs& a, int index) {
  const int columns = a.tile.columns, groups = (a.rows + columns - 1) / columns;
  if (index < groups) {
    return {Codes16(a.shared_gate_proj),
            Codes16(a.shared_up_proj),
            Codes16(a.shared_down_proj),
            a.shared_dim,
            nullptr,
            index * columns,
            min(index * columns + columns, a.rows),
            a.rows,
            1,
            a.shared_hidden,
            a.shared_out};
  }
  const ExpertTile tile = a.tiles[1 + index - groups];
  const auto of_expert = [&](const ExpertWeights& experts) {
    return reinterpret_cast<const std::uint16_t*>(experts.first.codes +
                                                  tile.expert * experts.stride);
  };
  const std::uint16_t* const gate = of_expert(a.gate_up);
  return {gate,
          gate + static_cast<std::int64_t>(a.expert_dim) * a.hidden,
          of_expert(a.down),
          a.expert_dim,
          a.pairs,
          tile.begin,
          tile.end,
          a.rows * a.experts_per_token,
          a.experts_per_token,
          a.expert_hidden,
          a.expert_out};
}

/// Row `row` of a matrix; past the end the last one, whose sums are not stored.
__device__ __forceinline__ const std::uint16_t* RowOf(const std::uint16_t* matrix, int row,
                                                      int rows, int inner) {
  return matrix + static_cast<std::int64_t>(min(row, rows - 1)) * inner;
}

/// silu(gate) * up: a product of product.cuh, of whose 16 weight rows eight are gate's and eight
/// up's. kRounded: for tiles, whose results are rounded for the next product.
template <bool kRounded>
class GateUpProduct {
 public:
  static constexpr int kAtOnce = 4;

  __device__ GateUpProduct(const MoeArgs& a, const ExpertRows& e, int first)
      : a_(a), e_(e), first_(first) {}

  __device__ int inner() const { return a_.hidden; }
  __device__ int columns() const { return first_ < e_.width ? e_.end - e_.begin : 0; }
  __device__ std::int64_t plane() const { return static_cast<std::int64_t>(a_.rows) * a_.hidden; }
  __device__ const std::uint16_t* WeightRow(int row) const {
    return RowOf(row % 16 < 8 ? e_.gate : e_.up, first_ + row / 16 * 8 + row % 8, e_.width,
                 a_.hidden);
  }
  __device__ const float* Row(int column) const { return At(a_.x, column); }
  __device__ const std::uint16_t* RoundedRow(int column) const { return At(a_.rounded, column); }
  template <int kCount>
  __device__ void Store(int tile, int column, const float* d) const {
    const int at = first_ + 8 * tile + Lane() / 4;
    if (at >= e_.width) return;
    int pairs[kCount][2];
    e_.Pairs(column, pairs);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (pairs[i][j] >= 0) Put(pairs[i][j], at, Silu(d[4 * i + j]) * d[4 * i + 2 + j]);
      }
    }
  }

 private:
  template <class T>
  __device__ const T* At(const T* rows, int column) const {
    const int pair = e_.Pair(column);
    return pair < 0 ? nullptr
                    : rows + static_cast<std::int64_t>(pair / e_.pairs_per_row) * a_.hidden;
  }
  __device__ void Put(std::int64_t pair, int at, float value) const {
    if constexpr (kRounded) {
      StoreRounded(e_.RoundedHidden() + pair * e_.width, at, value, a_.activation_parts,
                   static_cast<std::int64_t>(e_.all_pairs) * e_.width);
    } else {
      e_.hidden[pair * e_.width + at] = value;
    }
  }

  const MoeArgs& a_;
  const ExpertRows e_;
  const int first_;  // of the expert's width
};

/// The product with down, of 16 neighbouring weight rows.
class DownProduct {
 public:
  static constexpr int kAtOnce = 4;

  __device__ DownProduct(const MoeArgs& a, const ExpertRows& e, int first)
      : a_(a), e_(e), first_(first) {}

  __device__ int inner() const { return e_.width; }
  __device__ int columns() const { return e_.end - e_.begin; }
  __device__ std::int64_t plane() const {
    return static_cast<std::int64_t>(e_.all_pairs) * e_.width;
  }
  __device__ const std::uint16_t* WeightRow(int row) const {
    return RowOf(e_.down, first_ + row, a_.hidden, e_.width);
  }
  __device__ const float* Row(int column) const { return At(e_.hidden, column); }
  __device__ const std::uint16_t* RoundedRow(int column) const {
    return At(e_.RoundedHidden(), column);
  }
  template <int kCount>
  __device__ void Store(int tile, int column, const float* d) const {
    const int at = first_ + 16 * tile + Lane() / 4;
    int pairs[kCount][2];
    e_.Pairs(column, pairs);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t pair = pairs[i][j % 2];
        const int row = at + 8 * (j / 2);
        if (pair >= 0 && row < a_.hidden) e_.out[pair * a_.hidden + row] = d[4 * i + j];
      }
    }
  }

 private:
  template <class T>
  __device__ const T* At(const T* rows, int column) const {
    const int pair = e_.Pair(column);
    return pair < 0 ? nullptr : rows + static_cast<std::int64_t>(pair) * e_.width;
  }

  const MoeArgs& a_;
  const ExpertRows e_;
  const int first_;  // of the hidden width
};

}  // namespace kv8::cuda
