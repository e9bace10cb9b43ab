#include "family/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <numeric>

#include "family/bind_model.h"
#include "family/matrix_part.h"
#include "family/model_config.h"
#include "support/golden.h"
#include "support/released_config.h"
#include "tensor/visit_weights.h"

namespace kv8 {
namespace {

using testing::HasSubstr;

/// Every element of every matrix is a number of its own; those of vectors count from 0.
class NumberedSource final : public TensorSource {
 public:
  bool Has(const std::string& name) const override { return name.ends_with("gate_up_proj"); }
  Result<Weight> Matrix(const std::string& name, std::span<const std::int64_t> shape,
                        WeightCopies&) const override {
    const auto [slot, is_new] = matrices_.try_emplace(name);
    std::vector<std::uint32_t>& ids = slot->second;
    if (is_new) {
      ids.resize(static_cast<std::size_t>(Elements(shape)));
      std::iota(ids.begin(), ids.end(), next_);
      next_ += static_cast<std::uint32_t>(ids.size());
    }
    return Weight{WeightFormat::kFp32, Elements(shape) / shape.back(), shape.back(),
                  reinterpret_cast<const std::byte*>(ids.data())};
  }
  Result<std::vector<float>> Vector(const std::string&,
                                    std::span<const std::int64_t> shape) const override {
    std::vector<float> values(static_cast<std::size_t>(Elements(shape)));
    std::iota(values.begin(), values.end(), 0.0F);
    return values;
  }

  const std::map<std::string, std::vector<std::uint32_t>>& matrices() const { return matrices_; }
  std::size_t elements() const { return next_; }

 private:
  static std::int64_t Elements(std::span<const std::int64_t> shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }

  mutable std::map<std::string, std::vector<std::uint32_t>> matrices_;
  mutable std::uint32_t next_ = 0;
};

/// How often each element of a NumberedSource was seen, and the bytes of all that was.
struct Copies {
  explicit Copies(std::size_t elements) : seen(elements) {}
  std::vector<int> seen;
  std::int64_t bytes = 0;

  void Matrix(const Weight& weight) {
    bytes += weight.bytes();
    if (weight.codes == nullptr) return;
    const auto* ids = reinterpret_cast<const std::uint32_t*>(weight.codes);
    for (std::int64_t i = 0; i < weight.rows * weight.cols; ++i) ++seen[ids[i]];
  }
  void Table(const Weight& weight) { Matrix(weight); }
  void Experts(std::initializer_list<std::vector<Weight>*> parts) {
    for (const std::vector<Weight>* const part : parts) {
      for (const Weight& expert : *part) Matrix(expert);
    }
  }
  void Vector(std::span<const float>) {}
};

std::int64_t BytesOf(const ModelSpec& spec, const Shard& shard) {
  Model model = BindModel(spec, ShapeSource(WeightFormat::kFp32), shard).value();
  Copies copies(0);
  WeightVisit<Copies>{copies}(model.weights);
  return copies.bytes;
}

ModelSpec BundledSpec() {
  return LoadModelSpec(test::BundledModel()).value();
}

/// How many ranks have each element of a matrix: at least, at most.
std::pair<int, int> Expected(const std::string& name, const ModelSpec& spec,
                             const ShardCounts& counts) {
  const auto is = [&name](std::initializer_list<std::string_view> endings) {
    return std::ranges::any_of(endings, [&](auto ending) { return name.ends_with(ending); });
  };
  const int n = counts.tensor;
  if (is({"embed_tokens.weight"})) {
    const int stages = counts.pipeline > 1 ? 2 : 1;  // the draft embeds too
    return {stages, stages};
  }
  if (is({"self_attn.k_proj.weight", "self_attn.v_proj.weight"})) {
    const int sharing = std::max(1, n / spec.qsa.kv_heads);
    return {sharing, sharing};
  }
  if (is({"in_proj_qkv.weight"})) return {1, std::max(1, n / spec.gdn.key_heads)};
  if (name.find("ngram_embedding.shard_") != name.npos ||
      is({"lm_head.weight", "in_proj_z.weight", "in_proj_a.weight", "in_proj_b.weight",
          "linear_attn.out_proj.weight", "self_attn.q_proj.weight", "self_attn.o_proj.weight",
          "experts.gate_up_proj", "experts.down_proj", "shared_expert.gate_proj.weight",
          "shared_expert.up_proj.weight", "shared_expert.down_proj.weight"})) {
    return {1, 1};
  }
  return {n, n};
}

/// Binds every rank's part of `spec` and counts who has what.
void CheckCover(const ModelSpec& spec, const ShardCounts& counts) {
  SCOPED_TRACE(testing::Message() << counts.pipeline << " stages of " << counts.tensor);
  const NumberedSource source;
  ASSERT_TRUE(BindModel(spec, source).ok());
  Copies copies(source.elements());
  for (int stage = 0; stage < counts.pipeline; ++stage) {
    for (int rank = 0; rank < counts.tensor; ++rank) {
      const Shard shard = ShardOf(spec, counts, stage, rank).value();
      Model model = BindModel(spec, source, shard).value();
      const std::int64_t before = copies.bytes;
      WeightVisit<Copies>{copies}(model.weights);
      EXPECT_EQ(copies.bytes - before, BytesOf(spec, shard));
    }
  }
  for (const auto& [name, ids] : source.matrices()) {
    const auto begin = copies.seen.begin() + ids.front();
    const auto [least, most] = std::minmax_element(begin, begin + std::ssize(ids));
    EXPECT_EQ(std::pair(*least, *most), Expected(name, spec, counts)) << name;
  }
}

TEST(Shard, EveryWeightIsOnTheRanksThatNeedItAndOnNoOther) {
  const ModelSpec spec = BundledSpec();
  for (const int ranks : {1, 2, 4}) CheckCover(spec, {.tensor = ranks});
  for (const int stages : {2, 3, 4}) CheckCover(spec, {.pipeline = stages});
  CheckCover(spec, {.pipeline = 3, .tensor = 2});
}

TEST(Shard, RanksShareAKeyHeadWhereThereAreMoreRanksThanHeads) {
  ModelSpec spec = BundledSpec();
  spec.gdn.key_heads = 2;
  CheckCover(spec, {.tensor = 4});
  for (int rank = 0; rank < 4; ++rank) {
    const Shard shard = ShardOf(spec, {.tensor = 4}, 0, rank).value();
    EXPECT_EQ(shard.kv_heads.begin, rank / 2);
    EXPECT_EQ(shard.key_heads.begin, shard.value_heads.begin / 4);
    EXPECT_EQ(shard.kv_heads.begin, shard.query_heads.begin / 6);
  }
}

/// The convolution's channels are those of the rank's q, k and v, in this order.
TEST(Shard, VectorsFollowTheirHeads) {
  const ModelSpec spec = BundledSpec();  // 4 key heads and 8 value heads of 32, kernel 4
  const NumberedSource source;
  const Shard shard = ShardOf(spec, {.tensor = 4}, 0, 1).value();
  const Model model = BindModel(spec, source, shard).value();
  const GdnWeights& core = model.weights.layers[0].gdn->core;
  ASSERT_EQ(core.conv.size(), (32 + 32 + 64) * 4U);
  EXPECT_EQ(core.conv[0], 32 * 4);
  EXPECT_EQ(core.conv[32 * 4], (128 + 32) * 4);
  EXPECT_EQ(core.conv[64 * 4], (256 + 64) * 4);
  EXPECT_THAT(core.dt_bias, testing::ElementsAre(2, 3));
  EXPECT_EQ(core.decay.size(), 2U);
  EXPECT_EQ(core.norm.size(), 32U);
}

TEST(Shard, TheRankSeesItsOwnSizesAndCountsItsOwnLayers) {
  const ModelSpec spec = BundledSpec();
  const ModelSpec own = SpecOf(spec, ShardOf(spec, {.pipeline = 2, .tensor = 4}, 1, 3).value());
  EXPECT_EQ(own.vocab, 1536);
  EXPECT_EQ(own.qsa.query_heads, 3);
  EXPECT_EQ(own.qsa.kv_heads, 1);
  EXPECT_EQ(own.gdn.conv_channels(), 128);
  EXPECT_EQ(own.moe.experts, 16);
  EXPECT_EQ(own.moe.shared_expert_dim, 16);
  EXPECT_FALSE(own.ple);
  ASSERT_EQ(own.layer_count(), 6);
  EXPECT_EQ(own.layers[0].number, 6);
  EXPECT_EQ(own.layers[0].gdn_layer, 0);
  EXPECT_THAT(own.KvLayerNumbers(), testing::ElementsAre(7, 11));
  EXPECT_EQ(own.layers[1].kv_layer, 0);
  EXPECT_EQ(own.draft->kv_layer, 2);
  EXPECT_EQ(own.LayerOfKv(2), 12);
}

/// The constants of a later n-gram layer go on where those of the earlier one stop, wherever the
/// stage begins.
TEST(Shard, NgramConstantsAreThoseOfTheWholeModel) {
  const ModelSpec spec = BundledSpec();  // n-gram memory in layers 1 and 5
  const NumberedSource source;
  const Model whole = BindModel(spec, source).value();
  const Model stage = BindModel(spec, source, ShardOf(spec, {.pipeline = 4}, 1, 0).value()).value();
  EXPECT_EQ(stage.spec.layers[2].ple_layer, 0);
  EXPECT_EQ(stage.weights.layers[2].ple->hash.head_sizes,
            whole.weights.layers[5].ple->hash.head_sizes);
}

TEST(Shard, StagesOfTheReleasedModelAddUp) {
  const ModelSpec spec = test::ReleasedSpec();
  const std::int64_t embeddings = std::int64_t{4} * spec.vocab * spec.hidden;
  std::int64_t bytes = 0;
  for (int stage = 0; stage < 3; ++stage) {
    bytes += BytesOf(spec, ShardOf(spec, {.pipeline = 3}, stage, 0).value());
  }
  EXPECT_EQ(bytes, BytesOf(spec, WholeModel(spec)) + embeddings);
  const std::int64_t eighth = BytesOf(spec, ShardOf(spec, {.tensor = 8}, 0, 0).value());
  EXPECT_EQ(eighth, BytesOf(spec, ShardOf(spec, {.tensor = 8}, 0, 7).value()));
}

TEST(Shard, RefusesWhatCannotBeSharedEquallyByItsName) {
  const auto refusal = [](const std::function<void(ModelSpec&)>& change, ShardCounts counts) {
    ModelSpec spec = BundledSpec();
    change(spec);
    const auto shard = ShardOf(spec, counts, 0, 0);
    return shard.ok() ? "" : shard.error().what;
  };
  const ShardCounts two{.tensor = 2};
  EXPECT_THAT(refusal([](auto& s) { s.qsa.query_heads = 9; }, two),
              HasSubstr("num_attention_heads is 9, which 2 ranks"));
  EXPECT_THAT(refusal([](auto& s) { s.qsa.kv_heads = 3; }, two), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(refusal([](auto& s) { s.gdn.value_heads = 7; }, two),
              HasSubstr("linear_num_value_heads"));
  EXPECT_THAT(refusal([](auto& s) { s.gdn.key_heads = 3; }, two),
              HasSubstr("linear_num_key_heads"));
  EXPECT_THAT(refusal([](auto& s) { s.moe.experts = 15; }, two), HasSubstr("num_experts is 15"));
  EXPECT_THAT(refusal([](auto& s) { s.moe.shared_expert_dim = 63; }, two),
              HasSubstr("shared_expert_intermediate_size"));
  EXPECT_THAT(refusal([](auto& s) { s.vocab = 6143; }, two), HasSubstr("vocab_size"));
  EXPECT_THAT(refusal([](auto& s) { s.ple->parts = 3; }, two), HasSubstr("split_ngram_parts"));
  EXPECT_THAT(refusal([](auto&) {}, {.pipeline = 13}), HasSubstr("num_hidden_layers is 12"));
  EXPECT_THAT(refusal([](auto&) {}, {.tensor = 0}), HasSubstr("0 ranks"));
}

TEST(TakePart, CopiesOnlyWhatIsNoRunOfRows) {
  const std::array<std::uint16_t, 8> codes{0, 1, 2, 3, 4, 5, 6, 7};
  const Weight whole{WeightFormat::kBf16, 4, 2, reinterpret_cast<const std::byte*>(codes.data())};
  std::vector<std::shared_ptr<const std::byte[]>> copies;
  const Weight run = TakePart(whole, {.rows = {{1, 1}, {2, 2}}}, "t", copies).value();
  EXPECT_EQ(run.codes, whole.codes + 4);
  EXPECT_EQ(run.rows, 3);
  EXPECT_TRUE(copies.empty());
  const Weight part =
      TakePart(whole, {.rows = {{3, 1}, {0, 1}}, .columns = Range{1, 1}}, "t", copies).value();
  const auto* taken = reinterpret_cast<const std::uint16_t*>(part.codes);
  EXPECT_THAT(std::span(taken, 2), testing::ElementsAre(7, 1));
  EXPECT_EQ(copies.size(), 1U);
}

/// Scales of 128 rows and columns: those of the blocks that are taken, a short last one among them.
TEST(TakePart, BlocksOfRowsTakeTheirScales) {
  const std::vector<std::byte> codes(300 * 256);
  const std::array<float, 6> scales{0, 1, 2, 3, 4, 5};
  const Weight whole{.format = WeightFormat::kFp8,
                     .rows = 300,
                     .cols = 256,
                     .codes = codes.data(),
                     .scales = reinterpret_cast<const std::byte*>(scales.data()),
                     .group = 128,
                     .group_rows = 128,
                     .scale_format = ScaleFormat::kFp32};
  std::vector<std::shared_ptr<const std::byte[]>> copies;
  const Weight part =
      TakePart(whole, {.rows = {{128, 172}}, .columns = Range{128, 128}}, "t", copies).value();
  EXPECT_EQ(part.bytes(), 172 * 128 + 2 * 4);
  EXPECT_THAT(std::span(reinterpret_cast<const float*>(part.scales), 2),
              testing::ElementsAre(3, 5));
  const auto cut = TakePart(whole, {.rows = {{64, 64}}, .columns = Range{128, 128}}, "t", copies);
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, Code::kUnsupported);
  EXPECT_THAT(cut.error().what, HasSubstr("row 64"));
}

TEST(TakePart, RefusesToCutAGroupThatSharesAScale) {
  const Weight whole{.format = WeightFormat::kBf16, .rows = 2, .cols = 8, .group = 4};
  std::vector<std::shared_ptr<const std::byte[]>> copies;
  EXPECT_TRUE(TakePart(whole, {.rows = {}, .columns = Range{4, 4}}, "t", copies).ok());
  const auto cut = TakePart(whole, {.rows = {}, .columns = Range{2, 4}}, "t", copies);
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, Code::kUnsupported);
  EXPECT_EQ(cut.error().where, "t");
  EXPECT_THAT(cut.error().what, HasSubstr("column 2"));
}

}  // namespace
}  // namespace kv8
