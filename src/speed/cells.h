// Which cells of a matrix a machine has room for, and engines that run all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv8/engine.h"
#include "kv8/error.h"
#include "speed/bench.h"
#include "speed/matrix.h"

namespace kv8 {

struct SkippedCell {
  Cell cell;
  std::string reason;
};

struct PlannedCells {
  std::vector<Cell> cells;             // that fit
  std::vector<SkippedCell> skipped;    // that do not, or that the model is too short for
  std::vector<EngineOptions> engines;  // one per arm; without a cell there is none
};

/// What an engine of `arm` is made with, lengths left out, without any memory of earlier prompts.
EngineOptions OptionsOf(const BenchOptions& options, const ArmSpec& arm);

/// A and, where there is one, B.
std::vector<ArmSpec> ArmsOf(const BenchOptions& options);

/// Bytes that all engines may take together.
std::int64_t MemoryOf(const BenchOptions& options);

/// Errors: those of Engine::Plan that are not about a cell's length.
Result<PlannedCells> PlanCells(const BenchOptions& options);

/// Most tokens of a request of this cell.
std::int64_t MostTokensOf(const BenchOptions& options, const Cell& cell);

}  // namespace kv8
