#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"

namespace kv8::reference {
namespace {

using Doubles = std::span<const double>;

void MixRow(std::span<const float> streams, const HyperConnectionWeights& weights, int count,
            float eps, std::span<float> x) {
  const std::vector<double> n = GroupedNorm(streams, weights.gain, count, eps);
  std::vector<double> d = Product(Doubles(n), weights.down);
  for (double& value : d) value = Silu(value / count);
  const std::vector<double> g = Product(Doubles(d), weights.up);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double sum = 0;
    for (std::size_t at = i; at < n.size(); at += x.size()) sum += Sigmoid(g[at]) * n[at];
    x[i] = static_cast<float>(sum / count);
  }
}

void InjectRow(std::span<const float> streams, const HyperConnectionWeights& weights, int count,
               float eps, std::span<float> inject) {
  const std::vector<double> n = GroupedNorm(streams, weights.gain, count, eps);
  const std::vector<double> logits = Product(Doubles(n), weights.inject);
  for (std::size_t s = 0; s < logits.size(); ++s) {
    inject[s] = static_cast<float>(2.0 * Sigmoid(logits[s] / count));
  }
}

}  // namespace

void HyperMix(const OpContext&, ConstMatrix streams, const HyperConnectionWeights& weights,
              int stream_count, float eps, Matrix x, Matrix inject) {
  for (std::int64_t t = 0; t < streams.rows; ++t) {
    MixRow(streams.row(t), weights, stream_count, eps, x.row(t));
    if (weights.inject.empty()) continue;
    InjectRow(streams.row(t), weights, stream_count, eps, inject.row(t));
  }
}

void HyperCombine(const OpContext&, ConstMatrix y, ConstMatrix inject, Matrix streams) {
  for (std::int64_t t = 0; t < y.rows; ++t) {
    const std::span<float> row = streams.row(t);
    for (std::int64_t s = 0; s < inject.cols; ++s) {
      for (std::int64_t d = 0; d < y.cols; ++d) {
        float& value = row[static_cast<std::size_t>(s * y.cols + d)];
        value = static_cast<float>(static_cast<double>(value) +
                                   static_cast<double>(inject.row(t)[static_cast<std::size_t>(s)]) *
                                       static_cast<double>(y.row(t)[static_cast<std::size_t>(d)]));
      }
    }
  }
}

}  // namespace kv8::reference
