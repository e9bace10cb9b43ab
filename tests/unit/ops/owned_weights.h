// Weights that own their vectors: what ops take are views.
#pragma once

#include <vector>

#include "ops/gdn.h"
#include "ops/hyper_connection.h"
#include "ops/ple.h"

namespace kv8 {

struct OwnedGdnWeights {
  std::vector<float> conv, decay, dt_bias, norm;

  operator GdnWeights() const { return {conv, decay, dt_bias, norm}; }  // NOLINT: a view of it
};

struct OwnedHyperConnectionWeights {
  std::vector<float> gain;
  Weight down, up, inject;

  operator HyperConnectionWeights() const { return {gain, down, up, inject}; }  // NOLINT
};

struct OwnedPleWeights {
  PleHash hash;
  std::vector<Weight> shards;
  Weight key, value;
  std::vector<float> gain_key, gain_query, gain_conv, conv;

  operator PleWeights() const {  // NOLINT: a view of it
    return {hash, shards, key, value, gain_key, gain_query, gain_conv, conv};
  }
};

}  // namespace kv8
