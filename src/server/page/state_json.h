// The body of GET /kv8/state, which the page shows. docs/guide/server-page.md lists the fields.
#pragma once

#include <chrono>
#include <string>

#include "kv8/engine.h"
#include "server/engine_service.h"

namespace kv8 {

struct StateInput {
  const EngineSnapshot& snapshot;
  const ModelInfo& model;
  std::string model_name;
  std::string version;
  std::chrono::steady_clock::time_point now;
};

/// One JSON object. Of an idle engine the snapshot holds until now, so its time is now: the
/// difference of two answers' counters over that of their times is a rate.
std::string StateJson(const StateInput& input);

}  // namespace kv8
