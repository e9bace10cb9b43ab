#include "tensor/rope_frequencies.h"

#include <cmath>

namespace kv8 {

std::vector<float> RopeFrequencies(double theta, int rotary_dim) {
  std::vector<float> inv_freq(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t j = 0; j < inv_freq.size(); ++j) {
    inv_freq[j] = static_cast<float>(std::pow(theta, -2.0 * static_cast<double>(j) / rotary_dim));
  }
  return inv_freq;
}

}  // namespace kv8
