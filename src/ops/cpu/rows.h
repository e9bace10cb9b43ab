// Rows of a batch of slices, counted through: what a parallel loop over rows iterates on.
#pragma once

#include <cstdint>
#include <span>

namespace kv8 {

template <class Slice>
struct SliceRow {
  const Slice* slice;
  std::int64_t offset;  // row inside the slice

  /// Row of the batch's matrices.
  std::int64_t row() const { return slice->row_begin + offset; }
};

template <class Slice>
std::int64_t TotalRows(std::span<const Slice> slices) {
  std::int64_t rows = 0;
  for (const Slice& slice : slices) rows += slice.row_count;
  return rows;
}

/// Row number `index` of [0, TotalRows).
template <class Slice>
SliceRow<Slice> FindRow(std::span<const Slice> slices, std::int64_t index) {
  auto slice = slices.begin();
  while (index >= slice->row_count) index -= (slice++)->row_count;
  return {&*slice, index};
}

}  // namespace kv8
