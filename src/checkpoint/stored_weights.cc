#include "checkpoint/stored_weights.h"

#include <fmt/format.h>

#include "checkpoint/finite.h"
#include "checkpoint/tensor_types.h"

namespace kv8 {
namespace {

WeightParts PartsOf(const TensorFiles& files, const TensorNaming& naming, std::string_view stem) {
  return WeightParts(files.tensors(), stem, naming.table_of(stem));
}

/// Layouts know no files: their errors are at a tensor's name.
Error Placed(const TensorFiles& files, Error error) {
  error.where = TensorPlace(files.FileOf(error.where).string(), error.where);
  return error;
}

Result<StoredWeight> Describe(const WeightParts& parts, std::string_view stem) {
  KV8_ASSIGN_OR_RETURN(const WeightLayout* const layout, LayoutOf(parts));
  KV8_ASSIGN_OR_RETURN(const Weight weight, layout->describe(parts));
  StoredWeight stored{.layout = layout,
                      .weight = weight,
                      .zero_points = parts.Find("weight_zero_point") != nullptr};
  for (const WeightParts::Part& part : parts.parts()) {
    if (part.name.starts_with(stem)) stored.bytes += part.view->bytes();
  }
  return stored;
}

/// True for scales that belong to all pieces of a table, and to no matrix of their own.
bool IsShared(const TensorNaming& naming, const TensorMap& tensors, std::string_view stem) {
  const auto piece = tensors.lower_bound(fmt::format("{}shard_", stem));
  return piece != tensors.end() && naming.table_of(StemOf(piece->first)) == stem;
}

}  // namespace

std::string StoredWeight::CodesName(std::string_view name) const {
  return fmt::format("{}{}", StemOf(name), layout->parts.front().leaf);
}

Result<StoredWeights> FindWeights(const TensorFiles& files, const TensorNaming& naming) {
  StoredWeights weights;
  std::string_view last;
  for (const auto& [name, view] : files.tensors()) {
    const std::string_view stem = StemOf(name);
    if (stem == last || !IsWeightPart(LeafOf(name))) continue;
    last = stem;
    if (IsShared(naming, files.tensors(), stem)) continue;
    const WeightParts parts = PartsOf(files, naming, stem);
    auto stored = Describe(parts, stem);
    if (!stored.ok()) return Placed(files, std::move(stored).error());
    stored->is_table = !naming.table_of(stem).empty();
    weights.emplace(fmt::format("{}weight", stem), *stored);
  }
  return weights;
}

Result<Weight> LoadWeight(const TensorFiles& files, const TensorNaming& naming,
                          std::string_view name, const StoredWeight& stored,
                          std::optional<GptqZeros> zeros, WeightCopies& copies) {
  if (IsPlain(stored.weight.format)) return stored.weight;
  const WeightParts parts = PartsOf(files, naming, StemOf(name));
  auto loaded = stored.layout->load(parts, stored.weight, zeros, copies);
  if (!loaded.ok()) return Placed(files, std::move(loaded).error());
  const PartRule& scales = stored.layout->parts[1];
  for (const WeightParts::Part& part : parts.parts()) {
    if (part.leaf != scales.leaf || stored.is_table) continue;
    KV8_RETURN_IF_ERROR(CheckFinite(*part.view, part.name, files.FileOf(part.name).string()));
  }
  return loaded;
}

}  // namespace kv8
