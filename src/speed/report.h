// What `kv8 bench` found, as JSON, as text and as a page.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "speed/bench.h"
#include "speed/cells.h"
#include "speed/conversations.h"
#include "speed/matrix.h"
#include "speed/structured.h"

namespace kv8 {

/// Everything measured; the inner vectors of times are per arm, then per repeat.
struct BenchResults {
  struct Arm {
    Json facts;
    Json memory;
  };
  struct CellResult {
    Cell cell;
    std::vector<std::vector<CellTimes>> times;
  };
  struct StructuredResult {
    std::int64_t sequences = 0;
    std::vector<std::vector<StructuredTimes>> times;
  };
  std::vector<Arm> arms;
  std::string prompts;
  std::vector<CellResult> cells;
  std::vector<SkippedCell> skipped;
  std::vector<std::vector<TurnTimes>> conversations;  // per arm, then per turn
  std::vector<StructuredResult> structured;
  double seconds = 0;
};

/// Ratios of B to A stand in it only where their facts are the same.
Json BenchReport(const BenchOptions& options, const BenchResults& results);

/// A table for a terminal.
std::string BenchText(const Json& report);

/// One page without scripts or requests.
std::string BenchHtml(const Json& report);

}  // namespace kv8
