#include "family/tensor_source.h"

#include "checkpoint/finite.h"
#include "checkpoint/read_floats.h"

namespace kv8 {
namespace {

/// Of a tensor that the checkpoint reader has let through: BF16, F16 or F32.
WeightFormat FormatOf(DType dtype) {
  return dtype == DType::kBF16  ? WeightFormat::kBf16
         : dtype == DType::kF16 ? WeightFormat::kFp16
                                : WeightFormat::kFp32;
}

std::int64_t Elements(std::span<const std::int64_t> shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return elements;
}

}  // namespace

Result<Weight> CheckpointSource::Matrix(const std::string& name,
                                        std::span<const std::int64_t> shape) const {
  KV8_ASSIGN_OR_RETURN(const TensorView tensor, checkpoint_.Get(name, shape));
  return Weight{FormatOf(tensor.dtype), tensor.elements() / shape.back(), shape.back(),
                tensor.data};
}

Result<std::vector<float>> CheckpointSource::Vector(const std::string& name,
                                                    std::span<const std::int64_t> shape) const {
  KV8_ASSIGN_OR_RETURN(const TensorView tensor, checkpoint_.Get(name, shape));
  KV8_RETURN_IF_ERROR(CheckFinite(tensor, name, checkpoint_.FileOf(name).string()));
  return ReadFloats(tensor);
}

Result<Weight> ShapeSource::Matrix(const std::string&, std::span<const std::int64_t> shape) const {
  return Weight{format_, Elements(shape) / shape.back(), shape.back()};
}

Result<std::vector<float>> ShapeSource::Vector(const std::string&,
                                               std::span<const std::int64_t> shape) const {
  return std::vector<float>(static_cast<std::size_t>(Elements(shape)));
}

}  // namespace kv8
