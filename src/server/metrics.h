// /metrics: what Prometheus reads. docs/guide/server.md lists the names.
#pragma once

#include <cstdint>
#include <string>

#include "kv8/engine.h"
#include "kv8/statistics.h"
#include "server/http/server.h"

namespace kv8 {

struct MetricsInput {
  const EngineStatistics& statistics;
  const KvCacheInfo& kv_cache;
  const MemoryPlan& memory;
  const HttpStatistics& http;
  std::uint64_t log_lines_lost = 0;
  std::string model_name;
};

/// The text format of Prometheus. A metric that vLLM has too bears vLLM's name, labels and meaning,
/// so that its dashboards work; kv8's own begin with `kv8:`.
std::string MetricsText(const MetricsInput& input);

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace kv8
