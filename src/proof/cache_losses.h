// Values that a cache clipped or took for 0 since a point in time; and the error of a stopped run.
#pragma once

#include <vector>

#include "kv8/engine.h"
#include "kv8/error.h"

namespace kv8 {

/// Counters of an engine only grow; this one starts at 0.
class LossMeter {
 public:
  explicit LossMeter(const Engine& engine) : engine_(engine), before_(engine.kv_cache().layers) {}

  std::vector<KvCacheInfo::Layer> Since() const {
    std::vector<KvCacheInfo::Layer> layers = engine_.kv_cache().layers;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i].saturated_k -= before_[i].saturated_k;
      layers[i].saturated_v -= before_[i].saturated_v;
      layers[i].flushed_k -= before_[i].flushed_k;
      layers[i].flushed_v -= before_[i].flushed_v;
    }
    return layers;
  }

 private:
  const Engine& engine_;
  std::vector<KvCacheInfo::Layer> before_;
};

inline Error StoppedError() {
  return Error{Code::kCancelled, "stopped before the end", "kv8 verify",
               "run the same command again to go on behind the last finished measurement"};
}

}  // namespace kv8
