#include "family/tensor_source.h"

#include "checkpoint/finite.h"
#include "checkpoint/read_floats.h"

namespace kv8 {
namespace {

std::int64_t Elements(std::span<const std::int64_t> shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return elements;
}

}  // namespace

Result<Weight> CheckpointSource::Matrix(const std::string& name,
                                        std::span<const std::int64_t> shape,
                                        WeightCopies& copies) const {
  return checkpoint_.LoadWeight(name, shape, copies);
}

Result<std::vector<float>> CheckpointSource::Vector(const std::string& name,
                                                    std::span<const std::int64_t> shape) const {
  KV8_RETURN_IF_ERROR(checkpoint_.CheckWeight(name, shape));
  const TensorView& tensor = *checkpoint_.Find(name);
  KV8_RETURN_IF_ERROR(CheckFinite(tensor, name, checkpoint_.FileOf(name).string()));
  return ReadFloats(tensor);
}

bool ShapeSource::Has(const std::string& name) const {
  return name.ends_with("experts.gate_up_proj");
}

Result<Weight> ShapeSource::Matrix(const std::string& name, std::span<const std::int64_t> shape,
                                   WeightCopies&) const {
  Weight weight = stored_(name);
  weight.rows = Elements(shape) / shape.back();
  weight.cols = shape.back();
  return weight;
}

Result<std::vector<float>> ShapeSource::Vector(const std::string&,
                                               std::span<const std::int64_t> shape) const {
  return std::vector<float>(static_cast<std::size_t>(Elements(shape)));
}

}  // namespace kv8
