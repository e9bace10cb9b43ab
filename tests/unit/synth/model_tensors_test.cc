#include "synth/model_tensors.h"

#include <gtest/gtest.h>

#include <set>

#include "family/checkpoint.h"
#include "family/model_config.h"
#include "family/tensor_names.h"
#include "support/or_throw.h"
#include "synth/dimensions.h"

namespace kv8 {
namespace {

ModelTensors TensorsOfDims(const Dimensions& dimensions) {
  const Json config = test::OrThrow(MakeConfig(dimensions));
  return test::OrThrow(TensorsOf(test::OrThrow(ReadModelSpec(config, "config"))));
}

TEST(ModelTensors, AreThoseOfTheBundledCheckpoint) {
  const Checkpoint tiny = test::OrThrow(Checkpoint::Open(KV8_SOURCE_DIR "/models/tiny-qwen4exp"));
  const ModelTensors tensors = test::OrThrow(TensorsOf(tiny.config()));
  std::set<std::string, std::less<>> names;
  for (const ModelTensor& tensor : tensors.floats) {
    EXPECT_TRUE(tiny.Get(tensor.name, tensor.shape).ok()) << tensor.name;
    EXPECT_EQ(CanonicalName(ReleasedName(tensor.name)), tensor.name);
    names.insert(tensor.name);
  }
  for (const HashBuffer& buffer : tensors.hashes) names.insert(buffer.name);
  EXPECT_EQ(names.size(), tiny.tensors().size());
}

TEST(ModelTensors, OfTheReleasedDimensionsAddUpToThePublishedTotals) {
  // The published checkpoint: 1658 tensors, 333 of them of vision; 2 experts' stacks a layer.
  const ModelTensors tensors = TensorsOfDims({.source = "released"});
  EXPECT_EQ(tensors.floats.size() + tensors.hashes.size(), 1658 - 333);
  std::int64_t experts = 0, table = 0;
  for (const ModelTensor& tensor : tensors.floats) {
    if (tensor.role == TensorRole::kTable) table += tensor.elements();
    if (tensor.role == TensorRole::kExperts && !tensor.is_draft()) experts += tensor.elements();
  }
  EXPECT_EQ(table, 320'001'536 * std::int64_t{160});
  EXPECT_EQ(experts, 48 * 512 * std::int64_t{4'915'200});
}

TEST(Dimensions, AreCutOrRepeated) {
  const auto layers_of = [](int layers) {
    const Json config = test::OrThrow(MakeConfig({.source = "released", .layers = layers}));
    return test::OrThrow(ReadModelSpec(config, "config"));
  };
  EXPECT_EQ(layers_of(1).ple, std::nullopt);
  EXPECT_EQ(layers_of(4).KvLayerNumbers(), std::vector{3});
  EXPECT_EQ(layers_of(50).GdnLayers(), 38);
  const Json config =
      test::OrThrow(MakeConfig({.source = "tiny", .table_rows = 1000, .draft = false}));
  const ModelSpec spec = test::OrThrow(ReadModelSpec(config, "config"));
  EXPECT_FALSE(spec.draft.has_value());
  EXPECT_EQ(spec.ple->vocab_base, 1000 / 8);
}

}  // namespace
}  // namespace kv8
