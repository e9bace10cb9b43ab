// Matrix products with weights as stored.
#pragma once

#include "ops/cuda/device_types.h"
#include "tensor/weight.h"

namespace kv8::cuda {

/// One product of a group that shares its input.
struct LinearOutput {
  Weight weight;        // [N,K], 16-byte aligned
  float* out;           // [T,stride]
  std::int64_t stride;  // of a row of out, at least N
};
inline constexpr int kMaxLinearOutputs = 4;

/// How a tile of many rows is cut: activation rows, and stages of shared memory.
struct TileShape {
  std::int32_t columns, stages;
};

/// The contract of ops/linear.h: outputs[i].out[t,n] = sum_k x[t,k] weight_i[n,k].
///
/// Limits   K a multiple of 32; all weights BF16 or all FP16; |x| < 65504, |weight| < 65504
/// Numbers  x is rounded to FP16, or to two FP16 parts, which leaves 2^-22 of it; BF16 weights
/// become
///          FP16, which rounds only magnitudes below 2^-14, by at most 2^-25; products summed in
///          FP32
/// Splits   with n > 1 splits K is cut into n equal parts, multiples of 32, whose products are not
///          added up: part i goes to outputs[].out + i * T * stride
/// Order    a sum's order depends on K and the splits alone, so every kernel gives the same bits
/// Effects  writes the outputs; more than kFewRows rows overwrite `rounded`
struct LinearArgs {
  const float* x;  // [T,x_stride], 16-byte aligned rows
  std::int64_t x_stride;
  std::int32_t rows;   // T
  std::int32_t inner;  // K
  std::int32_t count;  // of outputs
  LinearOutput outputs[kMaxLinearOutputs];
  std::int32_t splits = 1;
  std::uint16_t* rounded = nullptr;   // scratch [activation_parts,T,K], 16-byte aligned
  std::int32_t activation_parts = 1;  // 1 or 2
  bool is_rounded = false;            // `rounded` has x already
  TileShape tile{};                   // set by the op
};

/// x [T,x_stride] as parts of FP16, each block of 16 in the order in which products take it
/// (RoundedPlace of product.cuh).
struct RoundArgs {
  const float* x;
  std::int64_t x_stride;
  std::int32_t rows, inner, activation_parts;
  std::uint16_t* rounded;  // [activation_parts,T,K]
};

/// Rows up to which a product reads x itself; above, it goes through tiles.
inline constexpr std::int32_t kFewRows = 8;

// What a tile is. Its weight rows and, per form, most activation rows; threads of its thread block.
inline constexpr std::int32_t kTileRows = 128;
inline constexpr std::int32_t kMmaTileColumns = 128, kWgmmaTileColumns = 256;
inline constexpr std::int32_t kWgmmaExpertColumns = 192;
inline constexpr std::int32_t kNarrowTileColumns = 64;  // above, a kernel of its own
inline constexpr std::int32_t kMmaTileThreads = 256, kWgmmaTileThreads = 384;
inline constexpr std::int32_t kMaxTileStages = 8;
inline constexpr std::int32_t kTileAlignment = 1024;   // of the stages in shared memory
inline constexpr std::int32_t kTileStaticBytes = 256;  // at most, beside the stages

/// Bytes of one stage: 64 values of each row.
constexpr std::int32_t TileStageBytes(std::int32_t columns, std::int32_t parts) {
  return 2 * 64 * (kTileRows + parts * columns);
}

}  // namespace kv8::cuda
