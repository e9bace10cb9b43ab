// Copies of items between arrays. Contract: slots.h.
#include "ops/cuda/slots.h"

#include "ops/cuda/common.cuh"

namespace kv8::cuda {
namespace {

constexpr int kThreads = 256;

template <class Word>
__device__ void CopyWords(unsigned char* to, const unsigned char* from, std::int64_t bytes) {
  const auto count = static_cast<int>(bytes / static_cast<std::int64_t>(sizeof(Word)));
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  }
}

}  // namespace

/// Thread blocks: x pieces of an item, y arrays, z pairs.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_copy_items(const CopyItemsArgs a) {
  AfterEarlierKernels();
  const CopyArray& array = a.arrays[blockIdx.y];
  const CopyPair pair = a.pairs != nullptr ? a.pairs[blockIdx.z] : a.own_pairs[blockIdx.z];
  const std::int64_t first = blockIdx.x * kCopyPieceBytes;
  if (pair.to < 0 || first >= array.bytes) return;
  const std::int64_t rest = array.bytes - first;
  const std::int64_t bytes = rest < kCopyPieceBytes ? rest : kCopyPieceBytes;
  const unsigned char* const from = array.from + pair.from * array.from_stride + first;
  unsigned char* const to = array.to + pair.to * array.to_stride + first;
  const auto all = reinterpret_cast<unsigned long long>(from) |
                   reinterpret_cast<unsigned long long>(to) |
                   static_cast<unsigned long long>(bytes);
  if (all % sizeof(uint4) == 0) {
    CopyWords<uint4>(to, from, bytes);
  } else {
    CopyWords<unsigned>(to, from, bytes);
  }
}

}  // namespace kv8::cuda
