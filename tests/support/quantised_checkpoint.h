// Checkpoints like the bundled one with experts and n-gram tables in a quantised layout.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "base/json.h"
#include "support/quantised_matrix.h"

namespace kv8::test {

struct QuantisedVariant {
  std::optional<LayoutOptions> experts;  // of the target, one by one; nullopt: as they are
  std::optional<LayoutOptions> draft;    // of the draft head
  bool fp8_tables = false;
  Json quantization_config;  // null: none
  /// The same values without a layout, in FP32 or rounded to BF16: experts fused.
  std::optional<DType> dequantised;
  /// What a test breaks: tensors by the names in the file, and config.json.
  std::function<void(OwnedTensors&, Json&)> change;
};

/// Writes it with all files of the bundled model that hold no weights. `dir` must not exist.
void WriteQuantisedVariant(const std::filesystem::path& dir, const QuantisedVariant& variant);

/// A quantization_config that describes experts in this layout and leaves all else alone.
Json ConfigOf(const LayoutOptions& experts);

/// The bundled model with experts in this layout and a fitting configuration.
QuantisedVariant ExpertsIn(const LayoutOptions& experts);

}  // namespace kv8::test
