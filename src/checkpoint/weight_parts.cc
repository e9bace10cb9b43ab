#include "checkpoint/weight_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "checkpoint/tensor_types.h"

namespace kv8 {
namespace {

constexpr std::array<std::string_view, 20> kLeaves = {
    "weight", "weight_scale", "weight_scale_2", "weight_scale_inv", "weight_global_scale",
    "weight_packed", "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale",
    "input_global_scale", "qweight", "qzeros", "scales", "g_idx",
    // EXL3
    "trellis", "suh", "svh", "mcg", "mul1"};
constexpr std::array<std::string_view, 4> kSharedLeaves = {"weight_scale", "weight_scale_2",
                                                           "weight_global_scale", "input_scale"};

}  // namespace

bool IsWeightPart(std::string_view leaf) {
  return std::ranges::count(kLeaves, leaf) > 0;
}

std::string_view StemOf(std::string_view name) {
  return name.substr(0, name.size() - LeafOf(name).size());
}

WeightParts::WeightParts(const TensorMap& tensors, std::string_view stem,
                         std::string_view shared_stem)
    : stem_(stem) {
  const auto collect = [&](std::string_view prefix, const auto& takes) {
    for (auto it = tensors.lower_bound(prefix);
         it != tensors.end() && it->first.starts_with(prefix); ++it) {
      const std::string_view leaf = std::string_view(it->first).substr(prefix.size());
      if (takes(leaf) && Find(leaf) == nullptr) parts_.push_back({leaf, it->first, &it->second});
    }
  };
  collect(stem, IsWeightPart);
  const auto is_shared = [](std::string_view leaf) {
    return std::ranges::count(kSharedLeaves, leaf) > 0;
  };
  if (!shared_stem.empty()) collect(shared_stem, is_shared);
}

const TensorView* WeightParts::Find(std::string_view leaf) const {
  const auto found = std::ranges::find(parts_, leaf, &Part::leaf);
  return found == parts_.end() ? nullptr : found->view;
}

const TensorView& WeightParts::At(std::string_view leaf) const {
  const TensorView* const view = Find(leaf);
  assert(view != nullptr);
  return *view;
}

Error WeightParts::Bad(std::string_view leaf, Code code, std::string what) const {
  const auto found = std::ranges::find(parts_, leaf, &Part::leaf);
  return Error{code, std::move(what),
               found == parts_.end() ? fmt::format("{}{}", stem_, leaf) : std::string(found->name),
               code == Code::kUnsupported
                   ? "use a checkpoint in a layout that kv8 reads (docs/guide)"
                   : "download or convert the checkpoint again"};
}

}  // namespace kv8
