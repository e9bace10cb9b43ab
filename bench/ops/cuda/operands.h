// Operands of ops at the released model's dimensions.
#pragma once

#include "bench_device.h"

namespace kv8::bench {

/// An experts block for `rows` rows: random weights and x, scratch.
cuda::MoeArgs ExpertOperands(BenchDevice& b, std::int64_t rows);

/// Bytes of the weights that a call of it reads once: router, shared expert, `active` experts.
double ExpertBytes(int active);

/// Sequences of `context` tokens whose blocks lie scattered in pools of `blocks` blocks.
struct Sequences {
  cuda::BlockTables tables;
  std::int64_t blocks;
};
Sequences MakeSequences(BenchDevice& b, std::int64_t count, std::int64_t context);

/// A pool of one layer with finite K and V of about 1.
cuda::KvPoolView KvPool(BenchDevice& b, std::int64_t blocks, cuda::PageType type);
cuda::IndexPoolView IndexPool(BenchDevice& b, std::int64_t blocks);

}  // namespace kv8::bench
