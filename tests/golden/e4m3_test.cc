// With an E4M3 cache and the reference's scales the answers are the reference's E4M3 answers, and
// as close to the FP32 answers as those are.
#include <gtest/gtest.h>

#include <numeric>

#include "base/json.h"
#include "compare.h"
#include "numeric/e4m3.h"

namespace kv8::test {
namespace {

// Two correct implementations round different K and V to different codes: a few codes in a million.
constexpr double kKlToGolden = 2e-4;
// The 8-bit noise itself: KL to FP32 logits relative to the reference's own.
constexpr double kKlToFp32Ratio = 0.25;

/// The reference's scales: target layers in order, then the draft layer.
std::vector<StoreScales> GoldenScales() {
  const auto json = ReadJsonFile(SourceDir() / "tests/golden/calibration_expected.json", 1 << 20);
  std::vector<StoreScales> scales;
  for (const char* layer : {"3", "7", "11", "mtp"}) {
    const Json& entry = (*json)["layers"][layer];
    scales.push_back({entry["k_scale"].get<float>(), entry["v_scale"].get<float>()});
  }
  return scales;
}

std::vector<float> LogitsOf(SequenceRunner& runner, std::span<const TokenId> ids) {
  return runner.Logits(runner.Prefill(ids, 512));
}

class GoldenE4M3 : public testing::TestWithParam<std::string> {};

TEST_P(GoldenE4M3, MatchesTheReferenceAndItsDistanceToFp32) {
  const Golden golden(GetParam());
  const auto ids = golden.Ints("input_ids");
  SequenceRunner exact({});
  std::vector<StoreScales> scales = GoldenScales();
  scales.pop_back();
  SequenceRunner quantised({.kv_dtype = KvDType::kE4M3, .scales = scales});
  const auto p = LogitsOf(exact, ids);
  const auto q = LogitsOf(quantised, ids);

  const auto vocab = static_cast<std::size_t>(exact.vocab());
  const auto last = golden.Floats("e4m3_logits_last4");
  const auto q_last = std::span(q).last(last.size());
  double to_golden = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    to_golden +=
        KlDivergence(std::span(last).subspan(t * vocab, vocab), q_last.subspan(t * vocab, vocab)) /
        4;
  }
  EXPECT_LE(to_golden, kKlToGolden);

  double to_fp32 = 0;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    to_fp32 += KlDivergence(std::span(p).subspan(t * vocab, vocab),
                            std::span(q).subspan(t * vocab, vocab));
  }
  const auto expected = golden.Floats("e4m3_kl_all");
  const double golden_mean =
      std::accumulate(expected.begin(), expected.end(), 0.0) / static_cast<double>(ids.size());
  EXPECT_NEAR(to_fp32 / static_cast<double>(ids.size()), golden_mean, kKlToFp32Ratio * golden_mean);
  RecordProperty("kl_to_golden", std::to_string(to_golden));
  RecordProperty("kl_to_fp32_over_golden",
                 std::to_string(to_fp32 / static_cast<double>(ids.size()) / golden_mean));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenE4M3, testing::ValuesIn(Golden::Names(false)),
                         [](const auto& param_info) { return param_info.param; });

/// Counts what a scale would clip, from the values that reach the stores.
class ClipProbe : public ForwardObserver {
 public:
  void OnKeyValue(int layer, ConstMatrix k, ConstMatrix v) override {
    k_clipped_[layer] += Clipped(k, scale_);
    v_clipped_[layer] += Clipped(v, scale_);
  }
  explicit ClipProbe(float scale) : scale_(scale) {}
  std::uint64_t k_clipped(int layer) const { return k_clipped_.at(layer); }
  std::uint64_t v_clipped(int layer) const { return v_clipped_.at(layer); }

 private:
  static std::uint64_t Clipped(ConstMatrix m, float scale) {
    std::uint64_t count = 0;
    for (std::int64_t t = 0; t < m.rows; ++t) {
      for (const float x : m.row(t)) count += SaturatesE4M3(x, scale) ? 1 : 0;
    }
    return count;
  }

  float scale_;
  std::map<int, std::uint64_t> k_clipped_;
  std::map<int, std::uint64_t> v_clipped_;
};

TEST(GoldenE4M3Saturation, IsCountedPerLayerAndSide) {
  const Golden golden("edge_264");
  const auto ids = golden.Ints("input_ids");
  const float tight = 0.002f;  // clips beyond 0.9: many keys, some values
  SequenceRunner runner(
      {.kv_dtype = KvDType::kE4M3, .scales = std::vector<StoreScales>(3, {tight, tight})});
  ClipProbe probe(tight);
  runner.Prefill(ids, 64, &probe);
  const std::vector<int> layers = runner.model().spec.KvLayerNumbers();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    EXPECT_GT(probe.k_clipped(layers[i]), 0u);
    EXPECT_EQ(runner.cache().saturation()[i].k, probe.k_clipped(layers[i]));
    EXPECT_EQ(runner.cache().saturation()[i].v, probe.v_clipped(layers[i]));
  }
}

}  // namespace
}  // namespace kv8::test
