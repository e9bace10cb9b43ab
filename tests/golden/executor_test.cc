// Every device reproduces the reference values through its executor, with the caches that it has.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "compare.h"
#include "support/executor_run.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"

namespace kv8::test {
namespace {

// The reference has an FP32 cache. An FP16 cache rounds keys and values to 2^-11 of themselves, and
// the GPU's attention does so with queries and softmax weights too: logits, of about 10, move by
// some 1e-3. Now and then that takes a token across a tie of router or indexer, which moves all
// that follows by more: the CPU with an FP16 cache is as far from these values as the GPU is.
constexpr float kLogits = 0.1f;
constexpr float kStreams = 0.1f;
constexpr double kMeanNll = 4e-3;  // of short texts; such a token is one in a hundred there
// Best tokens may differ where the two best logits are closer than the logits' own tolerance, and
// where such a tie was crossed: in one row of so many.
constexpr float kGap = 2 * kLogits;
constexpr std::int64_t kRowsPerTie = 500;
// Two correct implementations round a few K and V to different codes, and cross different ties.
constexpr double kKlToCpu = 1e-4;
// Activations that enter products as FP16 cross more ties: 4e-5 over 63,000 tokens, up to 2e-4 in a
// short text.
constexpr double kNativeKlToCpu = 5e-4;

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double Mean(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// How many rows have a best token that is better than the expected one by more than kGap.
std::int64_t WrongRows(std::span<const float> logits, std::span<const std::int32_t> expected,
                       std::int64_t vocab) {
  std::int64_t wrong = 0;
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const auto row =
        logits.subspan(t * static_cast<std::size_t>(vocab), static_cast<std::size_t>(vocab));
    const float best = row[static_cast<std::size_t>(ArgMax(row))];
    if (!(best - row[static_cast<std::size_t>(expected[t])] <= kGap)) ++wrong;
  }
  return wrong;
}

struct Cut {
  DeviceKind device;
  std::string golden;
  std::int64_t chunk;  // 0: token by token through decode kernels
};

std::string NameOf(const Cut& cut) {
  return std::string(cut.device == DeviceKind::kCpu ? "Cpu_" : "Cuda_") + cut.golden +
         (cut.chunk == 0 ? "_Decode" : "_Chunk" + std::to_string(cut.chunk));
}

class ExecutorGolden : public testing::TestWithParam<Cut> {
 protected:
  void SetUp() override {
    if (const auto why = WhyUnavailable(GetParam().device)) GTEST_SKIP() << *why;
  }
};

TEST_P(ExecutorGolden, ReproducesTheTarget) {
  const Golden golden(GetParam().golden);
  const auto ids = golden.Ints("input_ids");
  ExecutorRun run({.device = GetParam().device});
  std::vector<float> logits;
  if (GetParam().chunk > 0) {
    logits = run.Prefill(ids, GetParam().chunk);
  } else {
    for (const TokenId id : ids) {
      const auto row = run.Decode(id);
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  const auto last = golden.Floats("logits_last4");
  const float difference = MaxAbsDifference(std::span(logits).last(last.size()), last);
  EXPECT_LE(difference, kLogits);
  RecordProperty("logits", std::to_string(difference));
  EXPECT_LE(WrongRows(logits, golden.Ints("argmax_all"), run.vocab()),
            CeilDiv(std::ssize(ids), kRowsPerTie));
  if (golden.Has("nll_all")) {
    EXPECT_NEAR(Mean(NegativeLogLikelihoods(logits, ids, run.vocab())),
                Mean(golden.Floats("nll_all")), kMeanNll);
  }
  const std::string layer = "streams_last4.layer" + std::to_string(run.config().layer_count() - 1);
  if (golden.Has(layer) && GetParam().chunk > 0) {
    const auto streams = run.Streams((std::ssize(ids) - 1) % GetParam().chunk);
    const auto expected = golden.Floats(layer);
    EXPECT_LE(MaxAbsDifference(streams, std::span(expected).last(streams.size())), kStreams);
  }
  const auto greedy = golden.Ints("greedy");
  std::vector<float> row(logits.end() - run.vocab(), logits.end());
  for (const TokenId token : greedy) {
    EXPECT_EQ(WrongRows(row, {&token, 1}, run.vocab()), 0);
    row = run.Decode(token);
  }
}

std::vector<Cut> Cuts(DeviceKind device) {
  std::vector<Cut> cuts;
  for (const bool edge : {true, false}) {
    for (const std::string& name : Golden::Names(edge)) {
      for (const std::int64_t chunk : {0, 64, 512, 4096}) {
        if (chunk == 0 && name == "needle_mid") continue;  // long
        cuts.push_back({device, name, chunk});
      }
    }
  }
  return cuts;
}

class ExecutorDraftGolden : public ExecutorGolden {};

TEST_P(ExecutorDraftGolden, ReproducesTheDraftHead) {
  const Golden golden(GetParam().golden);
  const auto ids = golden.Ints("input_ids");
  ExecutorRun run({.device = GetParam().device, .with_draft = true});
  auto logits = run.DraftPrefill(ids, GetParam().chunk);
  const auto last = golden.Floats("mtp_logits_last4");
  EXPECT_LE(MaxAbsDifference(std::span(logits).last(last.size()), last), kLogits);
  EXPECT_LE(WrongRows(logits, golden.Ints("mtp_argmax_all"), run.vocab()),
            CeilDiv(std::ssize(ids), kRowsPerTie));
  TokenId token = golden.Ints("greedy").front();
  std::int64_t position = std::ssize(ids) - 1;
  StreamSource source = StreamSource::kTarget;
  for (const TokenId drafted : golden.Ints("draft3")) {
    logits = run.DraftStep(token, position++, source);
    EXPECT_EQ(WrongRows(logits, {&drafted, 1}, run.vocab()), 0);
    token = drafted;
    source = StreamSource::kDraft;
  }
}

std::vector<Cut> DraftCuts(DeviceKind device) {
  std::vector<Cut> cuts;
  for (const std::string& name : Golden::Names(false)) cuts.push_back({device, name, 512});
  return cuts;
}

class ExecutorAgreement : public ExecutorGolden {
 protected:
  /// Mean KL divergence from the CPU, which must have clipped as much.
  void ExpectAgreement(ExecutorRunOptions options, double most = kKlToCpu) {
    const auto ids = Golden(GetParam().golden).Ints("input_ids");
    ExecutorRun on_cpu(options);
    options.device = GetParam().device;
    ExecutorRun on_device(options);
    const auto p = on_cpu.Prefill(ids, 512), q = on_device.Prefill(ids, 512);
    const auto vocab = static_cast<std::size_t>(on_cpu.vocab());
    double divergence = 0;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      divergence += KlDivergence(std::span(p).subspan(t * vocab, vocab),
                                 std::span(q).subspan(t * vocab, vocab));
    }
    divergence /= static_cast<double>(ids.size());
    EXPECT_LE(divergence, most);
    RecordProperty("kl", std::to_string(divergence));
    const auto expected = on_cpu.executor().Saturation();
    const auto counted = on_device.executor().Saturation();
    ASSERT_EQ(counted.size(), expected.size());
    for (std::size_t i = 0; i < counted.size(); ++i) {
      EXPECT_EQ(counted[i].k, expected[i].k);
      EXPECT_EQ(counted[i].v, expected[i].v);
    }
  }
};

TEST_P(ExecutorAgreement, WithAnFp16Cache) {
  ExpectAgreement({});
}

TEST_P(ExecutorAgreement, OfNativeProducts) {
  ExpectAgreement({.device_backend = "native"}, kNativeKlToCpu);
}

TEST_P(ExecutorAgreement, WithAnE4M3Cache) {
  const TempDir dir;
  MakePack(dir / "pack");
  ExpectAgreement({.kv_dtype = KvDType::kE4M3, .scale_pack = dir / "pack"});
}

/// The tables stay in host memory when the GPU's does not hold them too; kernels read them there.
TEST(CudaTables, InHostMemoryGiveTheSameLogits) {
  if (const auto why = WhyUnavailable(DeviceKind::kCuda)) GTEST_SKIP() << *why;
  ExecutorRunOptions options{.device = DeviceKind::kCuda, .with_draft = true};
  ExecutorRun on_device(options);
  options.tables_on_host = true;
  ExecutorRun on_host(options);
  EXPECT_LT(on_host.executor().memory().tables, on_device.executor().memory().tables);
  const auto ids = Golden("zh").Ints("input_ids");
  EXPECT_EQ(on_host.DraftPrefill(ids, 64), on_device.DraftPrefill(ids, 64));
  for (const TokenId token : Golden("zh").Ints("greedy")) {
    EXPECT_EQ(on_host.Decode(token), on_device.Decode(token));
  }
}

#define KV8_ON(device, suite, cuts)                                                       \
  INSTANTIATE_TEST_SUITE_P(device, suite, testing::ValuesIn(cuts(DeviceKind::k##device)), \
                           [](const auto& param_info) { return NameOf(param_info.param); })
KV8_ON(Cuda, ExecutorGolden, Cuts);
KV8_ON(Cuda, ExecutorDraftGolden, DraftCuts);
KV8_ON(Cuda, ExecutorAgreement, DraftCuts);
// The model's own golden tests cover the CPU; a few cuts show that its executor adds nothing.
KV8_ON(Cpu, ExecutorDraftGolden, DraftCuts);
INSTANTIATE_TEST_SUITE_P(Cpu, ExecutorGolden,
                         testing::Values(Cut{DeviceKind::kCpu, "edge_65", 64},
                                         Cut{DeviceKind::kCpu, "zh", 512}),
                         [](const auto& param_info) { return NameOf(param_info.param); });
#undef KV8_ON

}  // namespace
}  // namespace kv8::test
