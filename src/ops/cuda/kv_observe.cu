// Magnitudes of keys and values. Contract: kv_observe.h.
#include "ops/cuda/kv_observe.h"

#include "ops/cuda/common.cuh"

namespace kv8::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kInfinityBits = 0x7F800000u;

using Count = unsigned long long;

/// Log2Bins::BinOf, by the same table.
__device__ __forceinline__ unsigned BinOf(const MagnitudeCell* cells, unsigned bits) {
  const unsigned inside = min(max(bits, kMagnitudeLowestBits), kMagnitudeHighestBits);
  const uint2 cell = __ldg(reinterpret_cast<const uint2*>(cells) +
                           ((inside - kMagnitudeLowestBits) >> kMagnitudeCellShift));
  return cell.x + (inside >= cell.y ? 1u : 0u);
}

/// A thread block's share; 32 bits hold what kObserveRows rows can give.
struct Partial {
  unsigned count, zeros;
  unsigned max_bits[kObserveRows];  // of a run of one sequence's rows, at any row of the run
  unsigned bins[kMagnitudeBins];
};

__device__ void AddRows(const KvObserveArgs& a, const float* values, int head, Partial& partial) {
  const int first = static_cast<int>(blockIdx.x) * kObserveRows;
  const int rows = min(kObserveRows, a.rows.count - first);
  unsigned count = 0, zeros = 0, max_bits = 0;
  int max_row = 0;  // whose sequence max_bits belongs to
  for (int i = static_cast<int>(threadIdx.x); i < rows * a.dim; i += kThreads) {
    const int row = first + i / a.dim;
    if (a.rows.sequence[row] < 0) continue;
    if (a.rows.sequence[row] != a.rows.sequence[first + max_row]) {
      atomicMax(&partial.max_bits[max_row], max_bits);
      max_bits = 0, max_row = row - first;
    }
    const std::int64_t at = static_cast<std::int64_t>(row) * a.heads + head;
    const unsigned bits = Bits(values[at * a.dim + i % a.dim]) & 0x7FFFFFFFu;
    ++count;
    max_bits = max(max_bits, bits);
    if (bits == 0) {
      ++zeros;
    } else if (bits < kInfinityBits) {
      atomicAdd(&partial.bins[BinOf(a.cells, bits)], 1u);
    }
  }
  atomicAdd(&partial.count, count);
  atomicAdd(&partial.zeros, zeros);
  atomicMax(&partial.max_bits[max_row], max_bits);
}

/// Rows of padding have left 0 behind.
__device__ void RaiseMaxima(const KvObserveArgs& a, const Partial& partial, int column) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= kObserveRows || partial.max_bits[i] == 0) return;
  const int sequence = a.rows.sequence[static_cast<int>(blockIdx.x) * kObserveRows + i];
  atomicMax(&a.max_bits[sequence * a.max_stride + column], partial.max_bits[i]);
}

}  // namespace

/// Thread blocks: x over kObserveRows rows, y over heads, z over sides.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_kv_observe(const KvObserveArgs a) {
  AfterEarlierKernels();
  __shared__ Partial partial;
  const int head = static_cast<int>(blockIdx.y), side = static_cast<int>(blockIdx.z);
  for (int i = static_cast<int>(threadIdx.x); i < kMagnitudeBins; i += kThreads) {
    partial.bins[i] = 0;
  }
  if (threadIdx.x < kObserveRows) partial.max_bits[threadIdx.x] = 0;
  if (threadIdx.x == 0) partial.count = partial.zeros = 0;
  __syncthreads();
  AddRows(a, side == 0 ? a.key : a.value, head, partial);
  __syncthreads();
  RaiseMaxima(a, partial, side * a.heads + head);
  HeadMagnitudes& out = a.out[side * a.heads + head];
  for (int i = static_cast<int>(threadIdx.x); i < kMagnitudeBins; i += kThreads) {
    if (partial.bins[i] != 0) atomicAdd(reinterpret_cast<Count*>(&out.bins[i]), partial.bins[i]);
  }
  if (threadIdx.x == 0) {
    atomicAdd(reinterpret_cast<Count*>(&out.count), partial.count);
    atomicAdd(reinterpret_cast<Count*>(&out.zeros), partial.zeros);
  }
}

}  // namespace kv8::cuda
