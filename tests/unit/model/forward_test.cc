// The order of the steps, seen by a backend that only writes down what it is asked.
#include "model/forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kv8 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RecordingSteps final : public Steps {
 public:
  /// Fails at the step of this name.
  explicit RecordingSteps(std::string fails_at = {}) : fails_at_(std::move(fails_at)) {}

  Result<void> Embed(const Weight&) override { return Note("embed"); }
  Result<void> NgramMemory(const PleWeights&, const LayerSpec& layer) override {
    return Note("ngram", layer.ple_layer);
  }
  Result<void> Mix(const HyperConnectionWeights&) override { return Note("mix"); }
  Result<void> Gdn(const GdnLayerWeights&, const LayerSpec& layer) override {
    return Note("gdn", layer.gdn_layer);
  }
  Result<void> ProjectAttention(const QsaLayerWeights&) override { return Note("project"); }
  Result<void> StoreKeyValue(const QsaLayerWeights&, const LayerSpec& layer) override {
    return Note("store", layer.kv_layer);
  }
  Result<void> ObserveKeyValue(const LayerSpec& layer) override {
    return Note("observe", layer.kv_layer);
  }
  Result<void> Attend(const QsaLayerWeights&, const LayerSpec& layer) override {
    return Note("attend", layer.kv_layer);
  }
  Result<void> Experts(const MoeWeights&) override { return Note("experts"); }
  Result<void> Reduce() override { return Note("reduce"); }
  Result<void> Combine() override { return Note("combine"); }
  Result<void> ObserveStreams(const LayerSpec& layer) override {
    return Note("layer", layer.number);
  }
  Result<void> Finish() override { return Note("finish"); }
  Result<void> EmbedNext(const Weight&) override { return Note("embed next"); }
  Result<void> ProjectEmbedding(const MtpWeights&) override { return Note("project embedding"); }
  Result<void> ProjectStreams(const MtpWeights&) override { return Note("project streams"); }
  Result<void> AddEmbedding() override { return Note("add embedding"); }
  Result<void> Head(const Weight&) override { return Note("head"); }

  std::vector<std::string> steps;

 private:
  Result<void> Note(std::string step) {
    steps.push_back(std::move(step));
    if (steps.back() == fails_at_) return Error{Code::kIo, "failed", fails_at_, ""};
    return {};
  }
  Result<void> Note(const char* step, int layer) {
    return Note(step + (" " + std::to_string(layer)));
  }

  std::string fails_at_;
};

/// A GDN layer with n-gram memory, a QSA layer, a draft.
ModelWeights Weights() {
  ModelWeights weights;
  weights.layers.push_back({.spec = {.number = 0, .gdn_layer = 0, .ple_layer = 0}});
  weights.layers.back().ple.emplace();
  weights.layers.back().gdn.emplace();
  weights.layers.push_back({.spec = {.number = 1, .kind = LayerKind::kQsa, .kv_layer = 0}});
  weights.layers.back().qsa.emplace();
  weights.mtp.emplace();
  weights.mtp->layer.spec = {.number = 2, .kind = LayerKind::kQsa, .kv_layer = 1};
  weights.mtp->layer.qsa.emplace();
  return weights;
}

TEST(Forward, TargetRunsItsLayersInOrder) {
  RecordingSteps steps;
  ASSERT_TRUE(RunTarget(steps, Weights()).ok());
  EXPECT_THAT(steps.steps,
              ElementsAre("embed", "ngram 0", "mix", "gdn 0", "reduce", "combine", "mix", "experts",
                          "reduce", "combine", "layer 0", "mix", "project", "store 0", "observe 0",
                          "attend 0", "reduce", "combine", "mix", "experts", "reduce", "combine",
                          "layer 1", "finish"));
}

TEST(Forward, DraftPairsStreamsWithTheNextToken) {
  RecordingSteps steps;
  ASSERT_TRUE(RunDraft(steps, Weights()).ok());
  EXPECT_THAT(steps.steps,
              ElementsAre("embed next", "project embedding", "project streams", "add embedding",
                          "mix", "project", "store 1", "observe 1", "attend 1", "reduce", "combine",
                          "mix", "experts", "reduce", "combine", "layer 2", "finish"));
}

TEST(Forward, HeadMixesFirst) {
  RecordingSteps steps;
  const ModelWeights weights = Weights();
  ASSERT_TRUE(RunHead(steps, weights.mixer, weights.lm_head).ok());
  EXPECT_THAT(steps.steps, ElementsAre("mix", "head"));
}

TEST(Forward, AFailedStepIsTheLast) {
  RecordingSteps steps("store 0");
  const Result<void> done = RunTarget(steps, Weights());
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().where, HasSubstr("store 0"));
  EXPECT_EQ(steps.steps.back(), "store 0");
}

}  // namespace
}  // namespace kv8
