// Matrix products on the threads of a pool: what Linear and the fused ops are made of.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "base/checked.h"
#include "ops/op_context.h"
#include "tensor/tensor_view.h"
#include "tensor/weight.h"

namespace kv8::simd {

/// out[t,n] = sum_k x[t,k] * weight[n,k]
///
/// Order: k = 0, 1, 4, 5, 8, 9, ... ascending, plus k = 2, 3, 6, 7, ... ascending, one fused
/// multiply-add each (multiply, then add, where the machine has none). A weight is code times
/// scale, rounded to FP32; the sum is multiplied by the global scale. It depends on nothing else:
/// not on the vector width, the number of rows, the other products, or the threads.
struct Product {
  ConstMatrix x;  // [T,K]
  Weight weight;  // [N,K], any format
  Matrix out;     // [T,N], must not overlap x
};

/// Computes all of them, shared out among the pool's threads when that pays. `shared` is what the
/// caller has left of the context's scratch.
void RunProducts(const OpContext& ctx, Arena shared, std::span<const Product> products);

/// Computes all of them on the calling thread; may be called inside a parallel loop, with what is
/// left of the thread's scratch.
void RunProducts(Arena scratch, std::span<const Product> products);

/// Up to this many rows, reading the weights again for every few rows beats packing them once.
inline constexpr std::int64_t kUnpackedRows = 28;

/// Row counts up to `rows` where buffers that grow with the rows may need most: few rows are packed
/// besides.
inline std::array<std::int64_t, 2> MostRows(std::int64_t rows) {
  return {std::min(rows, kUnpackedRows), rows};
}

/// Rows of x, packed, or none when they are used as they are. Rounded up for the widest vectors, so
/// that a plan holds on every machine.
inline float* TakePackedRows(Arena& arena, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kVectorRows = 8;
  const bool packs = rows > 1 && rows <= kUnpackedRows && cols % 4 == 0;
  return arena.Take<float>(packs ? RoundUp(rows, kVectorRows) * cols : 0);
}

/// What one thread packs: a panel of the weight, or the rows that it has of x.
inline float* TakePanel(Arena& arena, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kPanelRows = 16;
  Arena packed = arena;
  float* const place = TakePackedRows(packed, rows, cols);
  arena.Take<float>(rows > 1 ? kPanelRows * cols : 0);
  if (packed.bytes() > arena.bytes()) arena = packed;
  return place;
}

/// What RunProducts takes, for x of up to [rows, cols].
inline ScratchSize ProductScratch(std::int64_t rows, std::int64_t cols) {
  Arena shared, thread;
  TakePackedRows(shared, std::min(rows, kUnpackedRows), cols);
  TakePanel(thread, std::min(rows, kUnpackedRows), cols);
  return {shared.bytes(), thread.bytes()};
}

}  // namespace kv8::simd
