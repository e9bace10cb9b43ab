// How checkpoints store a matrix: one row per layout, decided by names, types and shapes alone.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "checkpoint/weight_parts.h"
#include "kv8/error.h"
#include "tensor/weight.h"

namespace kv8 {

/// What `qzeros` of a GPTQ container hold: the zero point less one, or itself.
enum class GptqZeros { kLessOne, kPlain };

/// A tensor of a layout.
struct PartRule {
  std::string_view leaf;
  std::array<DType, 3> dtypes;  // a free place repeats another
  bool required = true;

  bool Takes(DType dtype) const;
};

struct WeightLayout {
  std::string_view name;            // for messages: "ModelOpt NVFP4"
  std::span<const PartRule> parts;  // the codes first, then their scales
  /// Tells layouts of the same parts apart; null: there are none.
  bool (*fits)(const WeightParts&);
  /// What the headers say: format, size, groups; what lies in the file as Weight has it is pointed
  /// to. Errors: kCorrupt and kUnsupported at the tensor's name, for shapes that contradict each
  /// other.
  Result<Weight> (*describe)(const WeightParts&);
  /// The described weight with all that has to be read or converted, which is kept in `copies`.
  /// Errors: kCorrupt for a scale of the whole matrix that is no positive number; kUnsupported.
  Result<Weight> (*load)(const WeightParts&, Weight described, std::optional<GptqZeros> zeros,
                         WeightCopies& copies);
};

/// Of BF16, F16 and F32.
WeightFormat PlainFormat(DType dtype);

/// The layout of these parts. Errors, at a tensor's name: kUnsupported for layouts that kv8 does
/// not read, by their names; kCorrupt for a part that is missing or has no place.
Result<const WeightLayout*> LayoutOf(const WeightParts& parts);

}  // namespace kv8
