// From what an executor has counted to the statistics of a report.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv8/error.h"
#include "ops/head_magnitudes.h"
#include "scalepack/calibration_report.h"

namespace kv8 {

/// A document whose every row was counted.
struct CountedDocument {
  std::string category;
  std::string where;  // for messages
  std::uint64_t tokens = 0;
};

/// Adds a document and its maxima `max_bits` [layers, 2, kv heads], K before V, bits of FP32.
/// The layer after the last of `target_layers` is the draft's. Errors: kCorrupt, naming layer, side
/// and document, for a value that was not finite; then nothing is added.
Result<void> AddDocument(std::span<const std::uint32_t> max_bits, const CountedDocument& document,
                         int target_layers, MeasuredDocuments& measured);

/// Adds the counts `heads` [layers.size(), 2, kv heads] of any number of finite documents.
void AddMagnitudes(std::span<const HeadMagnitudes> heads, std::vector<LayerStatistics>& layers);

}  // namespace kv8
