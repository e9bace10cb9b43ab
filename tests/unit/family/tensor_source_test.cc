#include "family/tensor_source.h"

#include <gtest/gtest.h>

#include "family/bind_model.h"
#include "family/checkpoint.h"
#include "support/golden.h"
#include "support/released_config.h"
#include "tensor/visit_weights.h"

namespace kv8 {
namespace {

/// Adds up what it visits.
struct Bytes {
  std::int64_t matrices = 0, values = 0;

  void Matrix(const Weight& weight) { matrices += weight.bytes(); }
  void Table(const Weight& weight) { Matrix(weight); }
  void Experts(std::initializer_list<std::vector<Weight>*> parts) {
    for (const std::vector<Weight>* const part : parts) {
      for (const Weight& expert : *part) Matrix(expert);
    }
  }
  void Vector(std::span<const float> vector) { values += std::ssize(vector); }
};

Bytes Count(ModelWeights& weights) {
  Bytes bytes;
  WeightVisit<Bytes>{bytes}(weights);
  return bytes;
}

TEST(TensorSource, ShapesAloneHaveTheSizesOfACheckpoint) {
  const Checkpoint checkpoint = Checkpoint::Open(test::BundledModel()).value();
  Model bound = BindModel(checkpoint.config(), CheckpointSource(checkpoint)).value();
  Model shapes = BindModel(checkpoint.config(), ShapeSource(WeightFormat::kBf16)).value();
  const Bytes real = Count(bound.weights), planned = Count(shapes.weights);
  EXPECT_EQ(real.matrices, planned.matrices);
  EXPECT_EQ(real.values, planned.values);
}

/// The released checkpoint's index gives 359,999,963,128 bytes for all of its tensors: target,
/// draft and a vision tower, which kv8 leaves out.
TEST(TensorSource, TheReleasedModelIsCountedFromItsConfiguration) {
  const ModelSpec spec = test::ReleasedSpec();
  Model model = BindModel(spec, ShapeSource(WeightFormat::kBf16)).value();
  const Bytes bytes = Count(model.weights);
  EXPECT_EQ(spec.KvLayers(true), 13);
  EXPECT_EQ(spec.GdnLayers(), 36);
  EXPECT_GT(bytes.matrices, 350'000'000'000);
  EXPECT_LT(bytes.matrices, 359'999'963'128);
}

}  // namespace
}  // namespace kv8
