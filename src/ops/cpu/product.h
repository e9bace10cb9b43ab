// Matrix products on the threads of a pool: what Linear and the fused ops are made of.
#pragma once

#include <span>

#include "base/thread_pool.h"
#include "tensor/tensor_view.h"
#include "tensor/weight.h"

namespace kv8::simd {

/// out[t,n] = sum_k x[t,k] * weight[n,k]
///
/// Order: k = 0, 1, 4, 5, 8, 9, ... ascending, plus k = 2, 3, 6, 7, ... ascending, one fused
/// multiply-add each (multiply, then add, where the machine has none). It depends on nothing else:
/// not on the vector width, the number of rows, the other products, or the threads.
struct Product {
  ConstMatrix x;  // [T,K]
  Weight weight;  // [N,K] bf16 | f16 | f32
  Matrix out;     // [T,N], must not overlap x
};

/// Computes all of them, shared out among the pool's threads when that pays.
void RunProducts(ThreadPool& pool, std::span<const Product> products);

/// Computes all of them on the calling thread; may be called inside a parallel loop.
void RunProducts(std::span<const Product> products);

}  // namespace kv8::simd
