// What the plain ops share: weights as numbers, dot products, norms, rotation, activations. Double
// precision.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "tensor/tensor_view.h"
#include "tensor/weight.h"
#include "tensor/weight_row.h"

namespace kv8::reference {

/// Element [row, col], exactly.
inline double WeightAt(const Weight& weight, std::int64_t row, std::int64_t col) {
  return static_cast<double>(CodeAt(weight, row, col)) *
         static_cast<double>(ScaleAt(weight, row, col)) * static_cast<double>(weight.global_scale);
}

/// x . weight[row,:]
template <class T>
double DotRow(std::span<const T> x, const Weight& weight, std::int64_t row) {
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    sum += static_cast<double>(x[k]) * WeightAt(weight, row, static_cast<std::int64_t>(k));
  }
  return sum;
}

/// x . weight^T, [weight.rows]
template <class T>
std::vector<double> Product(std::span<const T> x, const Weight& weight) {
  std::vector<double> y(static_cast<std::size_t>(weight.rows));
  for (std::int64_t n = 0; n < weight.rows; ++n) {
    y[static_cast<std::size_t>(n)] = DotRow(x, weight, n);
  }
  return y;
}

/// rsqrt(mean(x^2) + eps)
template <class T>
double InverseRms(std::span<const T> x, float eps) {
  double sum = 0;
  for (const T value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return 1.0 / std::sqrt(sum / static_cast<double>(x.size()) + static_cast<double>(eps));
}

/// Each of `groups` equal parts of x over its RMS, times gain.
template <class T>
std::vector<double> GroupedNorm(std::span<const T> x, std::span<const float> gain, int groups,
                                float eps) {
  const std::size_t dim = x.size() / static_cast<std::size_t>(groups);
  std::vector<double> y(x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += dim) {
    const double scale = InverseRms(x.subspan(begin, dim), eps);
    for (std::size_t i = begin; i < begin + dim; ++i) {
      y[i] = static_cast<double>(x[i]) * scale * static_cast<double>(gain[i]);
    }
  }
  return y;
}

/// Rotates the first 2 * inv_freq.size() values of one head; the angle is FP32.
inline void Rotate(std::span<double> head, std::span<const float> inv_freq, std::int64_t position) {
  const std::size_t half = inv_freq.size();
  for (std::size_t j = 0; j < half; ++j) {
    const float angle = static_cast<float>(position) * inv_freq[j];
    const double c = std::cos(static_cast<double>(angle));
    const double s = std::sin(static_cast<double>(angle));
    const double first = head[j];
    const double second = head[j + half];
    head[j] = first * c - second * s;
    head[j + half] = second * c + first * s;
  }
}

inline double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
inline double Silu(double x) {
  return x * Sigmoid(x);
}

}  // namespace kv8::reference
