// From what an executor has counted to the statistics of a report.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kv8/error.h"
#include "ops/head_magnitudes.h"
#include "scalepack/calibration_report.h"

namespace kv8 {

/// The document that was counted.
struct CountedDocument {
  std::string category;
  std::string where;  // for messages
};

/// Adds `heads` [layers.size(), 2, kv heads], K before V, to the layers. Errors: kCorrupt, naming
/// layer, side and document, for a value that was not finite; then nothing is added.
Result<void> AddMagnitudes(std::span<const HeadMagnitudes> heads, const CountedDocument& document,
                           std::vector<LayerStatistics>& layers);

}  // namespace kv8
