#include "checkpoint/weight_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/layouts.h"

namespace kv8 {
namespace {

using enum DType;

constexpr std::array kPlainParts = {PartRule{"weight", {kBF16, kF16, kF32}}};

/// A stack or a convolution counts as rows of its last dimension.
Result<Weight> DescribePlain(const WeightParts& parts) {
  const TensorView& view = parts.At("weight");
  const std::int64_t cols = view.shape.empty() ? 1 : view.shape.back();
  return Weight{PlainFormat(view.dtype), cols == 0 ? 0 : view.elements() / cols, cols, view.data};
}

Result<Weight> LoadPlain(const WeightParts&, Weight described, std::optional<GptqZeros>,
                         WeightCopies&) {
  return described;
}

/// Of layouts that start with the same part the one that most have comes first: an error about
/// incomplete parts is about that one.
const std::array<const WeightLayout*, 8> kLayouts = {
    &kPlainLayout,           &kFp8BlockLayout,       &kFp8TableLayout, &kModelOptNvfp4Layout,
    &kCompressedNvfp4Layout, &kCompressedInt4Layout, &kGptqLayout,     &kAwqLayout};

bool Has(const WeightParts& parts, const PartRule& rule) {
  const TensorView* const view = parts.Find(rule.leaf);
  return view != nullptr && rule.Takes(view->dtype);
}

bool IsComplete(const WeightLayout& layout, const WeightParts& parts) {
  const bool all = std::ranges::all_of(layout.parts, [&](const PartRule& rule) {
    return Has(parts, rule) || (!rule.required && parts.Find(rule.leaf) == nullptr);
  });
  const bool only = std::ranges::all_of(parts.parts(), [&](const WeightParts::Part& part) {
    return std::ranges::count(layout.parts, part.leaf, &PartRule::leaf) > 0;
  });
  return all && only && (layout.fits == nullptr || layout.fits(parts));
}

Error Foreign(const WeightParts& parts, std::string_view leaf, std::string_view name) {
  return parts.Bad(leaf, Code::kUnsupported,
                   fmt::format("belongs to {} weights, which kv8 does not read", name));
}

/// Refuses by name what is known and not read.
Result<void> RefuseForeign(const WeightParts& parts) {
  for (const WeightParts::Part& part : parts.parts()) {
    const DType dtype = part.view->dtype;
    for (const std::string_view leaf : {"trellis", "suh", "svh", "mcg", "mul1"}) {
      if (part.leaf == leaf) return Foreign(parts, leaf, "EXL3");
    }
    if (part.leaf == "weight_g_idx") return Foreign(parts, part.leaf, "act-order INT4");
    if (dtype == kF6E2M3 || dtype == kF6E3M2) return Foreign(parts, part.leaf, "FP6");
    const bool exponents = dtype == kF8E8M0 || dtype == kU8;
    if (part.leaf == "weight_scale" && exponents) {
      const TensorView* const codes = parts.Find("weight");
      const bool fp8 = codes != nullptr && codes->dtype == kF8E4M3;
      return Foreign(parts, part.leaf, fp8 ? "MXFP8" : "MXFP4");
    }
  }
  return {};
}

/// What keeps the parts from being this layout.
Error WhyNot(const WeightLayout& layout, const WeightParts& parts) {
  for (const PartRule& rule : layout.parts) {
    const TensorView* const view = parts.Find(rule.leaf);
    if (view == nullptr && rule.required) {
      return parts.Bad(
          layout.parts.front().leaf, Code::kCorrupt,
          fmt::format("has type {}, but its {} is missing: {}",
                      Name(parts.At(layout.parts.front().leaf).dtype), rule.leaf, layout.name));
    }
    if (view != nullptr && !rule.Takes(view->dtype)) {
      return parts.Bad(rule.leaf, Code::kUnsupported,
                       fmt::format("has type {}; of {} weights kv8 reads {}", Name(view->dtype),
                                   layout.name, Name(rule.dtypes.front())));
    }
  }
  for (const WeightParts::Part& part : parts.parts()) {
    if (std::ranges::count(layout.parts, part.leaf, &PartRule::leaf) > 0) continue;
    return parts.Bad(part.leaf, Code::kCorrupt,
                     fmt::format("has no place beside {} of type {}", layout.parts.front().leaf,
                                 Name(parts.At(layout.parts.front().leaf).dtype)));
  }
  return parts.Bad(layout.parts.front().leaf, Code::kMismatch,
                   fmt::format("has shape {}, scales {}: neither GPTQ's layout nor AutoAWQ's",
                               ShapeText(parts.At(layout.parts.front().leaf).shape),
                               ShapeText(parts.At(layout.parts[1].leaf).shape)));
}

}  // namespace

WeightFormat PlainFormat(DType dtype) {
  return dtype == kBF16  ? WeightFormat::kBf16
         : dtype == kF16 ? WeightFormat::kFp16
                         : WeightFormat::kFp32;
}

const WeightLayout kPlainLayout = {"plain", kPlainParts, nullptr, DescribePlain, LoadPlain};

Result<const WeightLayout*> LayoutOf(const WeightParts& parts) {
  KV8_RETURN_IF_ERROR(RefuseForeign(parts));
  const WeightLayout* nearest = nullptr;
  for (const WeightLayout* layout : kLayouts) {
    if (!Has(parts, layout->parts.front())) continue;
    if (IsComplete(*layout, parts)) return layout;
    const bool has_scales =
        layout->parts.size() > 1 && parts.Find(layout->parts[1].leaf) != nullptr;
    if (nearest == nullptr || has_scales) nearest = layout;
  }
  if (nearest != nullptr) return WhyNot(*nearest, parts);
  for (const std::string_view leaf : {"weight", "weight_packed", "qweight"}) {
    const TensorView* const codes = parts.Find(leaf);
    if (codes == nullptr) continue;
    return parts.Bad(
        leaf, Code::kUnsupported,
        fmt::format("has type {}; kv8 reads no weights of that type", Name(codes->dtype)));
  }
  return parts.Bad(parts.parts().front().leaf, Code::kCorrupt,
                   "belongs to a quantised matrix whose codes are not there");
}

}  // namespace kv8
