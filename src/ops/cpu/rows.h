// Rows of a batch of slices, counted through: what a parallel loop over rows iterates on.
#pragma once

#include <cstdint>
#include <span>

#include "ops/qsa.h"

namespace kv8 {

struct SliceRow {
  const QsaSlice* slice;
  std::int64_t offset;  // row inside the slice

  /// Row of the batch's matrices.
  std::int64_t row() const { return slice->row_begin + offset; }
};

inline std::int64_t TotalRows(std::span<const QsaSlice> slices) {
  std::int64_t rows = 0;
  for (const QsaSlice& slice : slices) rows += slice.row_count;
  return rows;
}

/// The row that `index` of [0, TotalRows) stands for.
inline SliceRow FindRow(std::span<const QsaSlice> slices, std::int64_t index) {
  auto slice = slices.begin();
  while (index >= slice->row_count) index -= (slice++)->row_count;
  return {&*slice, index};
}

}  // namespace kv8
