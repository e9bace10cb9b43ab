// Frequencies of the rotary position embedding.
#pragma once

#include <vector>

namespace kv8 {

/// inv_freq[j] = theta^(-2j/R), j < R/2, rounded once to FP32.
std::vector<float> RopeFrequencies(double theta, int rotary_dim);

}  // namespace kv8
