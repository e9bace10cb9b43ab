#include "scalepack/scale_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "checkpoint/read_floats.h"
#include "family/tensor_names.h"
#include "numeric/e4m3.h"
#include "tensor/weight_row.h"

namespace kv8 {
namespace {

constexpr double kSlack = 1.0 + 1.0 / 64;

/// Canonical start of the names of a slot's layer.
std::string LayerName(const ScaleSlot& slot) {
  return slot.draft ? "mtp.layers.0" : fmt::format("model.layers.{}", slot.layer);
}

/// Magnitudes of a centered norm's factors, 1 + w.
Result<std::vector<double>> Gains(const Checkpoint& checkpoint, const std::string& name,
                                  std::int64_t size) {
  KV8_ASSIGN_OR_RETURN(const TensorView tensor, checkpoint.Get(name, std::array{size}));
  std::vector<double> gains;
  for (const float w : ReadFloats(tensor)) gains.push_back(std::abs(1.0 + w));
  return gains;
}

Result<double> KeyBound(const Checkpoint& checkpoint, const KvTensorNames& names) {
  const int dim = checkpoint.config().qsa.head_dim;
  KV8_ASSIGN_OR_RETURN(const std::vector<double> gains, Gains(checkpoint, names.k_norm, dim));
  return std::sqrt(dim) * std::ranges::max(gains);
}

Result<double> ValueBound(const Checkpoint& checkpoint, const KvTensorNames& names) {
  const ModelSpec& config = checkpoint.config();
  const auto hidden = static_cast<std::size_t>(config.hidden);
  const std::int64_t rows = std::int64_t{config.qsa.kv_heads} * config.qsa.head_dim;
  KV8_ASSIGN_OR_RETURN(const std::vector<double> gains,
                       Gains(checkpoint, names.input_norm, config.stream_width()));
  std::vector<double> gain(hidden);
  for (std::size_t i = 0; i < gains.size(); ++i) {
    gain[i % hidden] = std::max(gain[i % hidden], gains[i]);
  }
  WeightCopies copies;
  KV8_ASSIGN_OR_RETURN(
      const Weight weights,
      checkpoint.LoadWeight(names.v_proj, std::array{rows, std::int64_t{config.hidden}}, copies));
  std::vector<float> values(hidden);
  double largest = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    DecodeRow(weights, row, values.data());
    double squares = 0;
    for (std::size_t i = 0; i < hidden; ++i) {
      const double weighted = values[i] * gain[i];
      squares += weighted * weighted;
    }
    largest = std::max(largest, squares);
  }
  return std::sqrt(static_cast<double>(hidden) * largest);
}

}  // namespace

Result<double> MagnitudeBound(const Checkpoint& checkpoint, const ScaleSlot& slot) {
  const KvTensorNames names = KvTensorNamesOf(LayerName(slot));
  return slot.side == KvSide::kKey ? KeyBound(checkpoint, names) : ValueBound(checkpoint, names);
}

Result<void> CheckScaleBounds(const Checkpoint& checkpoint, const FoundScales& found) {
  for (const auto& [slot, scale] : found) {
    KV8_ASSIGN_OR_RETURN(const double bound, MagnitudeBound(checkpoint, slot));
    const double largest = kSlack * bound / kE4M3Max;
    // Weights with NaN bound nothing; they are refused where they are used.
    if (std::isnan(bound) || scale.value <= largest) continue;
    return Error{
        Code::kMismatch,
        fmt::format("scale {} is {}; the weights of this checkpoint cannot give more than {:.6g}",
                    scale.tensor, scale.value, largest),
        scale.file.string(), std::string(kCalibrateRemedy)};
  }
  return {};
}

}  // namespace kv8
