// From FP32 matrices to the codes and scales of public checkpoints, as they are stored.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor_view.h"
#include "tensor/weight.h"

namespace kv8 {

/// Largest magnitude. Every value must be finite, here and below.
float Magnitude(ConstMatrix w);

/// E4M3 codes [rows, cols]; one BF16 scale per block of 128 x 128 (short ones at the edges): its
/// magnitude / 448. A block of zeros has scale 1.
struct Fp8Matrix {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> scales;  // [ceil(rows / 128), ceil(cols / 128)]
};
Fp8Matrix QuantiseFp8(ConstMatrix w);

/// The BF16 scale of a tensor with one scale for all: magnitude / 448; 1 for zeros.
std::uint16_t Fp8TensorScale(float magnitude);
/// E4M3 codes with that scale.
std::vector<std::uint8_t> QuantiseFp8(ConstMatrix w, std::uint16_t scale);

/// ModelOpt's second scale of a matrix, or of several that share it: magnitude / (6 * 448); 1 for
/// zeros.
float Nvfp4GlobalScale(float magnitude);
/// E2M1 codes, two in a byte, the low half first; one E4M3 scale per 16 columns: the magnitude of
/// the block / (6 * global_scale), at least the smallest code, 1 for a block of zeros. `w.cols`
/// must divide by 16.
struct Nvfp4Matrix {
  std::vector<std::uint8_t> codes;   // [rows, cols / 2]
  std::vector<std::uint8_t> scales;  // [rows, cols / 16]
};
Nvfp4Matrix QuantiseNvfp4(ConstMatrix w, float global_scale);

/// compressed-tensors' pack-quantized form: codes 0 to 15, eight in a word, the lowest four bits
/// first; one BF16 scale per group of columns, from the group's largest magnitude (symmetric, the
/// zero point is 8 and not stored) or its range, which takes in zero. `w.cols` must divide by
/// `group` and 8, and `w.rows` by 8 where zero points are stored.
struct Int4Matrix {
  std::vector<std::uint32_t> codes;        // [rows, cols / 8]
  std::vector<std::uint16_t> scales;       // [rows, cols / group]
  std::vector<std::uint32_t> zero_points;  // [rows / 8, cols / group], eight rows in a word
};
Int4Matrix QuantiseInt4(ConstMatrix w, int group, bool symmetric);

}  // namespace kv8
