// Memory as planned, at the released dimensions, from a configuration alone.
#include <gtest/gtest.h>

#include "family/bind_model.h"
#include "model/executor.h"
#include "support/released_config.h"

namespace kv8 {
namespace {

void ExpectEqual(const ExecutorMemory& planned, const ExecutorMemory& taken) {
  EXPECT_EQ(planned.weights, taken.weights);
  EXPECT_EQ(planned.tables, taken.tables);
  EXPECT_EQ(planned.states, taken.states);
  EXPECT_EQ(planned.rollback, taken.rollback);
  EXPECT_EQ(planned.activations, taken.activations);
  EXPECT_EQ(planned.scratch, taken.scratch);
}

TEST(MemoryPlan, TheCpuTakesWhatItPlansAtReleasedDimensions) {
  const ModelSpec spec = test::ReleasedSpec();
  const Model model = BindModel(spec, ShapeSource(WeightFormat::kBf16)).value();
  for (const bool with_draft : {false, true}) {
    ExecutorLimits limits{
        .cache = KvCachePlan::ForTokens(spec.qsa, KvDType::kFp16, spec.KvLayers(with_draft), 4096),
        .sequence_pages = 64,
        .slots = 2,
        .drafts = with_draft ? 3 : 0,
        .threads = 2,
        .with_draft = with_draft,
        .observe_kv = with_draft};
    const ExecutorMemory planned = PlanExecutor(DeviceKind::kCpu, model, limits).value();
    const auto executor = CreateExecutor(DeviceKind::kCpu, model, limits);
    ASSERT_TRUE(executor.ok()) << executor.error().ToString();
    ExpectEqual(planned, (*executor)->memory());
    EXPECT_GT(planned.scratch, 140 << 20);
    EXPECT_EQ(planned.states, 2 * StateLayout::For(spec, with_draft).bytes());
  }
}

/// What the GPU will take is known without one.
TEST(MemoryPlan, TheGpuPlansFromTheConfigurationAlone) {
  const ModelSpec spec = test::ReleasedSpec();
  const Model model = BindModel(spec, ShapeSource(WeightFormat::kBf16)).value();
  ExecutorLimits limits{
      .cache = KvCachePlan::ForTokens(spec.qsa, KvDType::kE4M3, spec.KvLayers(true), 262144),
      .sequence_pages = 4096,
      .drafts = 3,
      .with_draft = true};
  const ExecutorMemory planned = PlanExecutor(DeviceKind::kCuda, model, limits).value();
  EXPECT_GT(planned.weights + planned.tables, 350'000'000'000);
  EXPECT_LT(planned.weights + planned.tables, 359'999'963'128);
  // One sequence and the empty one behind it, each array begins at a multiple of 256 bytes.
  const std::int64_t two = 2 * StateLayout::For(spec, true).bytes();
  EXPECT_GE(planned.states, two);
  EXPECT_LE(planned.states, two + 256 * 200);
}

}  // namespace
}  // namespace kv8
