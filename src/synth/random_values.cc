#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "numeric/half.h"
#include "numeric/split_mix64.h"
#include "synth/values.h"

namespace kv8 {
namespace {

enum class Shape { kBell, kFlat };

/// Bell: mean and standard deviation. Flat: from first to second.
struct Distribution {
  Shape shape = Shape::kBell;
  float first = 0;
  float second = 1;
};

struct Rule {
  std::string_view ending;  // of a tensor's name
  Distribution values;
};

/// Deviation of rows that are looked up: as in trained models, small beside what layers add, so
/// that the layers decide what comes out.
constexpr float kLookedUp = 0.05f;

/// The first that fits; other names are projections.
constexpr std::array kRules = {
    Rule{".A_log", {Shape::kFlat, 0, 2.77f}},  // decay rates of 1 to 16
    Rule{".dt_bias", {Shape::kFlat, -1, 1}},
    Rule{".linear_attn.norm.weight", {Shape::kBell, 1, 0.05f}},
    Rule{"norm.weight", {Shape::kBell, 0, 0.05f}},
    Rule{".norm_key.weight", {Shape::kBell, 0, 0.05f}},
    Rule{".norm_query.weight", {Shape::kBell, 0, 0.05f}},
    Rule{".norm_conv.weight", {Shape::kBell, 0, 0.05f}},
    Rule{".embed_tokens.weight", {Shape::kBell, 0, kLookedUp}},
};

Distribution DistributionOf(const ModelTensor& tensor) {
  for (const Rule& rule : kRules) {
    if (tensor.name.ends_with(rule.ending)) return rule.values;
  }
  if (tensor.role == TensorRole::kTable) return {Shape::kBell, 0, kLookedUp};
  return {Shape::kBell, 0, 1 / std::sqrt(static_cast<float>(tensor.shape.back()))};
}

/// Sum of four uniform numbers less its mean, in units of its deviation: at most sqrt(12), and the
/// same on every machine, which a logarithm is not.
constexpr float kBellBound = 3.4641016f;

float Bell(std::uint64_t bits) {
  constexpr std::uint64_t kLane = 0xFFFF;
  const auto sum = static_cast<std::int32_t>((bits & kLane) + (bits >> 16 & kLane) +
                                             (bits >> 32 & kLane) + (bits >> 48));
  return static_cast<float>(sum - 2 * 0xFFFF) * (kBellBound / (2 * 0xFFFF));
}

std::uint64_t StreamOf(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = SplitMix64(seed);
  for (const char c : name) hash = SplitMix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

}  // namespace

Result<void> RandomValues::Read(const ModelTensor& tensor, std::int64_t begin,
                                std::span<float> out) const {
  const auto [shape, first, second] = DistributionOf(tensor);
  std::uint64_t counter =
      StreamOf(seed_, tensor.name) + kSplitMixGamma * static_cast<std::uint64_t>(begin);
  for (float& value : out) {
    const std::uint64_t bits = SplitMix64(counter);
    counter += kSplitMixGamma;
    const float unit = static_cast<float>(bits >> 40) * 0x1p-24f;
    value = shape == Shape::kBell ? first + second * Bell(bits) : first + (second - first) * unit;
    value = DecodeBf16(EncodeBf16(value));
  }
  return {};
}

Result<float> RandomValues::Bound(const ModelTensor& tensor) const {
  const auto [shape, first, second] = DistributionOf(tensor);
  const float bound = shape == Shape::kBell ? std::abs(first) + second * kBellBound
                                            : std::max(std::abs(first), std::abs(second));
  return DecodeBf16(EncodeBf16(bound));
}

}  // namespace kv8
