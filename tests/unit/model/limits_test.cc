// Every field of a configuration is moved beyond every limit of every device, one at a time.
#include "ops/limits.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>

#include "base/file.h"
#include "family/bind_model.h"
#include "model/executor.h"
#include "support/released_config.h"

namespace kv8 {
namespace {

using testing::HasSubstr;

/// How a test moves one field. A computed field is moved by one of those it is computed from.
using Move = std::function<void(ModelSpec&, std::int64_t)>;

const std::map<std::string_view, Move> kMoves = {
    {"hidden_size", [](ModelSpec& s, std::int64_t v) { s.hidden = static_cast<int>(v); }},
    {"hc_count", [](ModelSpec& s, std::int64_t v) { s.streams = static_cast<int>(v); }},
    {"hc_lowrank", [](ModelSpec& s, std::int64_t v) { s.lowrank = static_cast<int>(v); }},
    {"8 * (hc_lowrank + hc_count) / (hc_count * hidden_size)",
     [](ModelSpec& s, std::int64_t v) { s.lowrank = static_cast<int>(s.stream_width() * v / 8); }},
    {"linear_conv_kernel_dim",
     [](ModelSpec& s, std::int64_t v) { s.gdn.conv_kernel = static_cast<int>(v); }},
    {"linear_key_head_dim",
     [](ModelSpec& s, std::int64_t v) { s.gdn.key_dim = s.gdn.value_dim = static_cast<int>(v); }},
    {"linear_value_head_dim / linear_key_head_dim",
     [](ModelSpec& s, std::int64_t v) {
       s.gdn.value_dim = static_cast<int>(v == 0 ? 129 : v * s.gdn.key_dim);
     }},
    {"head_dim", [](ModelSpec& s, std::int64_t v) { s.qsa.head_dim = static_cast<int>(v); }},
    {"num_attention_heads / num_key_value_heads",
     [](ModelSpec& s, std::int64_t v) {
       s.qsa.query_heads = static_cast<int>(v * s.qsa.kv_heads);
     }},
    {"indexer_head_dim",
     [](ModelSpec& s, std::int64_t v) { s.qsa.index_dim = static_cast<int>(v); }},
    {"indexer_n_heads",
     [](ModelSpec& s, std::int64_t v) { s.qsa.index_heads = static_cast<int>(v); }},
    {"indexer_compress_ratio",
     [](ModelSpec& s, std::int64_t v) { s.qsa.selection_block_tokens = static_cast<int>(v); }},
    {"num_experts", [](ModelSpec& s, std::int64_t v) { s.moe.experts = static_cast<int>(v); }},
    {"num_experts_per_tok",
     [](ModelSpec& s, std::int64_t v) { s.moe.experts_per_token = static_cast<int>(v); }},
    {"moe_intermediate_size",
     [](ModelSpec& s, std::int64_t v) { s.moe.expert_dim = static_cast<int>(v); }},
    {"shared_expert_intermediate_size",
     [](ModelSpec& s, std::int64_t v) { s.moe.shared_expert_dim = static_cast<int>(v); }},
    {"ple_embed_dim", [](ModelSpec& s, std::int64_t v) { s.ple->embed_dim = static_cast<int>(v); }},
    {"ngram_size", [](ModelSpec& s, std::int64_t v) { s.ple->ngram_size = static_cast<int>(v); }},
};

/// Values just beyond a limit.
std::vector<std::int64_t> Beyond(const Limit& limit) {
  std::vector<std::int64_t> values;
  if (limit.has.one_of[0] != 0) {
    for (const std::int64_t value : limit.has.one_of) {
      for (const std::int64_t near : {value - 1, value + 1}) {
        if (value > 0 && near >= 0 && !limit.has.Hold(near)) values.push_back(near);
      }
    }
    return values;
  }
  if (limit.has.max < INT32_MAX) values.push_back(limit.has.max + 1);
  if (limit.has.multiple_of > 1)
    values.push_back(limit.has.multiple_of + limit.has.multiple_of / 2);
  return values;
}

TEST(Limits, TheReleasedModelRunsOnEveryDevice) {
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    const Result<void> checked = CheckLimits(test::ReleasedSpec(), device);
    EXPECT_TRUE(checked.ok()) << checked.error().ToString();
  }
}

TEST(Limits, EveryFieldBeyondItsLimitIsRefusedByName) {
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    for (const Limit& limit : LimitsOf(device)) {
      ASSERT_TRUE(kMoves.contains(limit.field)) << limit.field;
      const auto values = Beyond(limit);
      ASSERT_FALSE(values.empty()) << limit.field;
      for (const std::int64_t value : values) {
        ModelSpec spec = test::ReleasedSpec();
        kMoves.at(limit.field)(spec, value);
        const std::int64_t got = limit.value(spec);
        EXPECT_FALSE(limit.has.Hold(got)) << limit.field << " " << got;
        const Result<void> checked = CheckLimits(spec, device);
        ASSERT_FALSE(checked.ok()) << limit.field << " " << value;
        EXPECT_EQ(checked.error().code, Code::kUnsupported);
        EXPECT_THAT(checked.error().what, HasSubstr(fmt::format("{} is {}; ", limit.field, got)));
        EXPECT_THAT(checked.error().what, HasSubstr("has " + limit.has.Text()));
        EXPECT_FALSE(checked.error().remedy.empty());
      }
    }
  }
}

/// The loader asks the table: nothing beyond it gets as far as memory.
TEST(Limits, AnExecutorIsNotPlannedBeyondThem) {
  ModelSpec spec = test::ReleasedSpec();
  spec.gdn.conv_kernel = 3;
  const Model model = BindModel(spec, ShapeSource(WeightFormat::kBf16)).value();
  const ExecutorLimits limits{
      .cache = KvCachePlan::ForTokens(spec.qsa, KvDType::kFp16, spec.KvLayers(false), 64)};
  EXPECT_TRUE(PlanExecutor(DeviceKind::kCpu, model, limits).ok());
  const auto planned = PlanExecutor(DeviceKind::kCuda, model, limits);
  ASSERT_FALSE(planned.ok());
  EXPECT_THAT(planned.error().what, HasSubstr("linear_conv_kernel_dim is 3"));
  EXPECT_THAT(planned.error().what, HasSubstr("has 4"));
}

TEST(Limits, FormatsThatADeviceLacksAreRefusedByName) {
  const ModelSpec spec = test::ReleasedSpec();
  const ExecutorLimits limits{
      .cache = KvCachePlan::ForTokens(spec.qsa, KvDType::kFp16, spec.KvLayers(false), 64)};
  for (const WeightFormat format : WeightFormatsOf(DeviceKind::kCpu)) {
    const Model model = BindModel(spec, ShapeSource(format)).value();
    EXPECT_TRUE(PlanExecutor(DeviceKind::kCpu, model, limits).ok()) << Name(format);
    const auto planned = PlanExecutor(DeviceKind::kCuda, model, limits);
    const auto here = WeightFormatsOf(DeviceKind::kCuda);
    ASSERT_EQ(planned.ok(), std::ranges::count(here, format) > 0) << Name(format);
    if (planned.ok()) continue;
    EXPECT_EQ(planned.error().code, Code::kUnsupported);
    EXPECT_THAT(planned.error().what, HasSubstr(fmt::format("is {}, the GPU has", Name(format))));
  }
}

/// KV8_WRITE_GUIDE=1 writes the document anew.
TEST(Limits, TheDocumentIsTheTable) {
  const std::filesystem::path path = KV8_SOURCE_DIR "/docs/kernels/limits.md";
  if (std::getenv("KV8_WRITE_GUIDE") != nullptr) {
    ASSERT_TRUE(WriteFileAtomic(path, LimitsDocument()).ok());
  }
  EXPECT_EQ(ReadFile(path, 1 << 20).value(), LimitsDocument());
}

}  // namespace
}  // namespace kv8
