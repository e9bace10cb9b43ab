// Conversations that grow, fork and return: whatever tier their beginnings come from, and whoever
// gives way in between, tokens and bits of log-probability are those of a run without any cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "kv8/engine.h"
#include "support/golden.h"
#include "support/make_engine.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"
#include "support/test_device.h"

namespace kv8::test {
namespace {

constexpr std::int64_t kLength = 448;
constexpr int kAtOnce = 3;
constexpr int kMany = 120;  // requests of the long form: some 8,000 steps in all
constexpr std::int64_t kTight = 5 << 20;

struct TierSetting {
  std::string name;
  KvDType dtype = KvDType::kFp16;
  int drafts = 0;
  std::int64_t host_memory = 64 << 20;
  int requests = 24;
  int restart_each = 0;  // requests after which a new engine goes on from a folder; 0: none
};

/// What a client sees of one answer.
struct Seen {
  std::vector<TokenId> tokens;
  std::vector<std::uint32_t> logprob_bits;

  bool operator==(const Seen&) const = default;
};

Seen SeenOf(const Completion& done) {
  Seen seen{done.choices.front().token_ids, {}};
  for (const PositionLogprobs& row : done.choices.front().logprobs) {
    seen.logprob_bits.push_back(std::bit_cast<std::uint32_t>(row.chosen.logprob));
  }
  return seen;
}

class KvTier : public testing::TestWithParam<TierSetting> {
 protected:
  EngineOptions Options() {
    EngineOptions options;
    options.model = BundledModel();
    options.device = TestDevice();
    options.kv_dtype = GetParam().dtype;
    if (options.kv_dtype == KvDType::kE4M3) {
      if (!std::filesystem::exists(dir_ / "pack")) MakePack(dir_ / "pack");
      options.scale_pack = dir_ / "pack";
    }
    options.max_model_len = kLength;
    options.max_num_batched_tokens = 256;
    options.threads = 1;
    options.speculative_tokens = GetParam().drafts;
    options.draft_sampling = DraftSampling::kProbabilistic;
    return options;
  }

  /// Pools with room for one long conversation, and few states.
  EngineOptions Tiered() {
    EngineOptions options = Options();
    const MemoryPlan one = Engine::Plan(options).value();
    options.kv_memory = one.kv + one.index + one.draft_kv + one.draft_index;
    options.max_num_seqs = kAtOnce;
    options.prefix_cache_memory = 5 * (one.states + (1 << 14));
    options.kv_host_memory = GetParam().host_memory;
    if (GetParam().restart_each > 0) {
      options.kv_disk = dir_ / "kv";
      options.kv_disk_quota = 64 << 20;
    }
    return options;
  }

  /// Ends what runs; a new engine goes on from the folder.
  void Restart(std::unique_ptr<Engine>& engine) {
    while (engine->Step()) {
    }
    engine.reset();
    engine = MakeEngine(Tiered());
  }

  TempDir dir_;
};

/// Asks for the next turn of conversations at random.
class Talk {
 public:
  explicit Talk(unsigned seed) : random_(seed) {}

  Request Next() {
    const int what = Random(10);
    if (talks_.empty() || what == 0) {
      talks_.push_back(Text(Random(4) * 100, 70 + Random(100)));
    } else if (what < 3) {  // fork
      std::vector<TokenId> talk = talks_[Pick()];
      talk.resize(talk.size() -
                  static_cast<std::size_t>(Random(static_cast<int>(talk.size() / 2))));
      talks_.push_back(std::move(talk));
    }
    std::vector<TokenId>& talk = talks_[Pick()];
    if (what != 3) {  // else it asks the same again
      const std::vector<TokenId> more = Text(Random(900), 1 + Random(70));
      talk.insert(talk.end(), more.begin(), more.end());
    }
    if (std::ssize(talk) > kLength - 70) talk.resize(static_cast<std::size_t>(65 + Random(120)));
    if (talks_.size() > 8) talks_.erase(talks_.begin() + Random(8));
    return Ask(talks_.empty() ? Text(0, 70) : talks_[Pick()]);
  }

 private:
  int Random(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }
  std::size_t Pick() { return static_cast<std::size_t>(Random(static_cast<int>(talks_.size()))); }

  static std::vector<TokenId> Text(std::int64_t begin, std::int64_t count) {
    static const std::vector<TokenId> text = Golden("dialogue").Ints("input_ids");
    std::vector<TokenId> tokens;
    for (std::int64_t i = 0; i < count; ++i) {
      tokens.push_back(text[static_cast<std::size_t>((begin + i) % std::ssize(text))]);
    }
    return tokens;
  }

  Request Ask(std::vector<TokenId> prompt) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = Random(3) == 0 ? 70 : 4;
    request.ignore_eos = true;
    request.logprobs = 0;
    request.sampling.temperature = Random(2) == 0 ? 0.0f : 0.9f;
    request.sampling.seed = static_cast<std::uint64_t>(Random(1000));
    return request;
  }

  std::mt19937 random_;
  std::vector<std::vector<TokenId>> talks_;
};

TEST_P(KvTier, Kvtier2_EveryAnswerIsThatOfAColdRun) {
  const auto cold = MakeEngine(Options());
  auto tiered = MakeEngine(Tiered());
  Talk talk(11);
  int open = 0, wrong = 0;
  for (int i = 0; i < GetParam().requests && wrong == 0; ++i) {
    if (GetParam().restart_each > 0 && i % GetParam().restart_each == 0) Restart(tiered);
    const Request request = talk.Next();
    const Seen expected = SeenOf(cold->Generate(request).value());
    ++open;
    const auto check = [&, expected, i](const Completion& done) {
      --open;
      wrong += SeenOf(done) == expected ? 0 : 1;
      EXPECT_EQ(SeenOf(done), expected) << "request " << i;
    };
    ASSERT_TRUE(tiered->Submit(request, {}, check).ok());
    while (open == kAtOnce || (open > 0 && i % 5 == 0)) tiered->Step();
  }
  while (tiered->Step()) {
  }
  EXPECT_EQ(open, 0);

  const EngineStatistics s = tiered->statistics();
  const KvTierStatistics& tier = s.kv_host;
  if (GetParam().restart_each > 0) {
    EXPECT_GT(tier.disk_read_units, 0u);
    EXPECT_EQ(tier.disk_refused + tier.disk_failed, 0u);
    return;
  }
  EXPECT_GT(s.preemptions, 0u) << "the pool was never short";
  EXPECT_GT(tier.written_units, 0u);
  EXPECT_GT(tier.hits, 0u);
  EXPECT_GT(s.prefix_hits, tier.hits) << "no hit was the device's alone";
  EXPECT_LT(tier.restored_bytes, tier.written_bytes * tier.hits);
  EXPECT_LE(tier.bytes, tier.budget);
  EXPECT_EQ(s.free_pages + s.cached_pages, s.pages);
}

TEST_P(KvTier, Kvtier4_NothingMovesWhileThePoolsHaveRoom) {
  EngineOptions options = Options();
  options.max_num_seqs = kAtOnce;
  options.prefix_cache_memory = 64 << 20;
  const MemoryPlan without = Engine::Plan(options).value();
  options.kv_host_memory = 64 << 20;
  EXPECT_EQ(Engine::Plan(options)->total() - without.total(), options.kv_host_memory);
  const auto engine = MakeEngine(options);
  Talk talk(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine->Generate(talk.Next()).ok());
  EXPECT_EQ(engine->statistics().kv_host.written_units, 0u);
  EXPECT_EQ(engine->statistics().kv_host.bytes, 0u);
}

TEST(KvTierOptions, Kvtier5_RefusesABudgetThatHoldsNothing) {
  EngineOptions options;
  options.model = BundledModel();
  options.kv_host_memory = 1 << 30;
  EXPECT_EQ(Engine::Create(options).error().where, "--kv-host-memory") << "no prefix cache";
  options.prefix_cache_memory = 64 << 20;
  options.kv_host_memory = 4096;
  const Error small = Engine::Create(options).error();
  EXPECT_EQ(small.code, Code::kResourceExhausted);
  EXPECT_THAT(small.what, testing::StartsWith("4096 bytes given, "));
  options.kv_host_memory = -1;
  EXPECT_EQ(Engine::Create(options).error().code, Code::kInvalidArgument);
}

std::string NameOf(const testing::TestParamInfo<TierSetting>& setting) {
  return setting.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Short, KvTier,
    testing::Values(TierSetting{"Fp16"}, TierSetting{"E4M3Draft3Tight", KvDType::kE4M3, 3, kTight},
                    TierSetting{"Fp16Draft3Disk", KvDType::kFp16, 3, kTight, 30, 8}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(
    Long, KvTier,
    testing::Values(TierSetting{"Fp16Tight", KvDType::kFp16, 0, kTight, kMany},
                    TierSetting{"Fp16Draft3Tight", KvDType::kFp16, 3, kTight, kMany},
                    TierSetting{"E4M3Tight", KvDType::kE4M3, 0, kTight, kMany},
                    TierSetting{"E4M3Draft3", KvDType::kE4M3, 3, 64 << 20, kMany},
                    TierSetting{"E4M3Disk", KvDType::kE4M3, 0, kTight, kMany, 30}),
    NameOf);

}  // namespace
}  // namespace kv8::test
