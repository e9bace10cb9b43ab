// A prefix hit changes nothing but the time: same tokens, same bits of log-probability.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kv8/engine.h"
#include "support/golden.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"
#include "support/test_device.h"

namespace kv8::test {
namespace {

struct CacheSetting {
  std::string name;
  KvDType dtype = KvDType::kFp16;
  int drafts = 0;
};

struct CachedAnswer {
  std::vector<std::vector<TokenId>> tokens;  // by choice
  std::vector<float> logprobs;
  std::int64_t cached = 0;
};

std::vector<TokenId> Dialogue(std::size_t begin, std::size_t count) {
  static const std::vector<TokenId> text = Golden("dialogue").Ints("input_ids");
  return {text.begin() + static_cast<std::ptrdiff_t>(begin),
          text.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

std::vector<TokenId> Join(std::vector<TokenId> a, std::span<const TokenId> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCache : public testing::TestWithParam<CacheSetting> {
 protected:
  std::unique_ptr<Engine> Open(std::int64_t prefix_memory, bool cache_generated = false) {
    EngineOptions options;
    options.model = BundledModel();
    options.device = TestDevice();
    options.kv_dtype = GetParam().dtype;
    if (options.kv_dtype == KvDType::kE4M3) {
      if (!std::filesystem::exists(dir_ / "pack")) MakePack(dir_ / "pack");
      options.scale_pack = dir_ / "pack";
    }
    options.max_model_len = 448;
    options.max_num_seqs = 3;
    options.max_num_batched_tokens = 256;
    options.threads = 1;
    options.speculative_tokens = GetParam().drafts;
    // Makes rejection sampling use the draft's probabilities: any difference in them would show.
    options.draft_sampling = DraftSampling::kProbabilistic;
    options.prefix_cache_memory = prefix_memory;
    options.cache_generated = cache_generated;
    auto engine = Engine::Create(options);
    if (!engine.ok()) throw std::runtime_error(engine.error().ToString());
    return std::move(engine).value();
  }

  static Request Ask(std::vector<TokenId> prompt) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = 8;
    request.ignore_eos = true;
    request.logprobs = 0;
    request.sampling.temperature = 0.9f;
    request.sampling.seed = 5;
    return request;
  }

  static CachedAnswer AnswerOf(Engine& engine, const Request& request) {
    auto done = engine.Generate(request);
    if (!done.ok()) throw std::runtime_error(done.error().ToString());
    CachedAnswer answer;
    for (const Choice& choice : done->choices) {
      answer.tokens.push_back(choice.token_ids);
      for (const auto& p : choice.logprobs) answer.logprobs.push_back(p.chosen.logprob);
    }
    answer.cached = done->usage.cached_tokens;
    return answer;
  }

  /// Asks both a fresh engine and `warm`; returns how many tokens the hit supplied.
  std::int64_t ExpectSame(Engine& warm, const Request& request) {
    const CachedAnswer cold = AnswerOf(*Open(0), request);
    const CachedAnswer hit = AnswerOf(warm, request);
    EXPECT_EQ(hit.tokens, cold.tokens);
    EXPECT_EQ(hit.logprobs, cold.logprobs);
    EXPECT_EQ(cold.cached, 0);
    return hit.cached;
  }

  static constexpr std::int64_t kMemory = 64 << 20;
  TempDir dir_;
};

TEST_P(PrefixCache, TheSamePromptAgain) {
  const auto warm = Open(kMemory);
  EXPECT_EQ(ExpectSame(*warm, Ask(Dialogue(0, 300))), 0);
  EXPECT_EQ(ExpectSame(*warm, Ask(Dialogue(0, 300))), 256);
  EXPECT_EQ(ExpectSame(*warm, Ask(Dialogue(0, 300))), 256);
  EXPECT_EQ(warm->statistics().prefix_hits, 2u);
  EXPECT_EQ(warm->statistics().prefix_lookups, 3u);
  EXPECT_EQ(warm->statistics().prefix_lookup_tokens, 900u);
  EXPECT_EQ(warm->statistics().prefix_hit_pages, 8u);
  EXPECT_EQ(warm->statistics().cached_tokens, 512u);
}

TEST_P(PrefixCache, APromptOfWholePagesComputesItsLast) {
  const auto warm = Open(kMemory);
  EXPECT_EQ(ExpectSame(*warm, Ask(Dialogue(0, 256))), 0);
  EXPECT_EQ(ExpectSame(*warm, Ask(Dialogue(0, 256))), 192);
}

TEST_P(PrefixCache, AConversationGoesOn) {
  const auto warm = Open(kMemory);
  const auto first = Ask(Dialogue(0, 200));
  EXPECT_EQ(ExpectSame(*warm, first), 0);
  const auto second = Ask(Join(first.prompt, Dialogue(300, 100)));
  EXPECT_EQ(ExpectSame(*warm, second), 192);
  const auto third = Ask(Join(second.prompt, Dialogue(500, 50)));
  EXPECT_EQ(ExpectSame(*warm, third), 256);
}

TEST_P(PrefixCache, TellsWhoHoldsEachPage) {
  const auto engine = Open(kMemory);
  AnswerOf(*engine, Ask(Dialogue(0, 200)));
  const auto submit = [&](std::vector<TokenId> prompt) {
    return engine->Submit(Ask(std::move(prompt)), {}, {}).value();
  };
  const RequestId a = submit(Dialogue(0, 200));
  const RequestId b = submit(Dialogue(0, 200));
  const RequestId other = submit(Dialogue(300, 100));
  engine->Step();
  std::map<std::vector<RequestId>, int> pages;
  std::int64_t free = 0;
  std::int64_t cached = 0;
  for (const KvPageInfo& page : engine->pool_map()) {
    EXPECT_EQ(page.holders, std::ssize(page.requests) + (page.cached ? 1 : 0));
    free += page.holders == 0 ? 1 : 0;
    cached += page.cached ? 1 : 0;
    if (!page.requests.empty()) ++pages[page.requests];
  }
  EXPECT_EQ(free, engine->kv_cache().free_pages);
  EXPECT_EQ(cached, engine->kv_cache().cached_pages);
  // Beside a draft head the last page of a hit is a copy for each.
  const int shared = GetParam().drafts > 0 ? 2 : 3;
  EXPECT_EQ((pages[{a, b}]), shared);
  EXPECT_EQ((pages[{a}]), 4 - shared);
  EXPECT_EQ((pages[{b}]), 4 - shared);
  EXPECT_EQ((pages[{other}]), 2);
}

TEST_P(PrefixCache, ManyUsersOfOneSystemPrompt) {
  const auto warm = Open(kMemory);
  const auto system = Dialogue(0, 150);  // ends inside of a page
  EXPECT_EQ(ExpectSame(*warm, Ask(Join(system, Dialogue(200, 70)))), 0);
  // The second shows where prompts part; from the third on everybody profits.
  EXPECT_EQ(ExpectSame(*warm, Ask(Join(system, Dialogue(300, 80)))), 0);
  EXPECT_EQ(ExpectSame(*warm, Ask(Join(system, Dialogue(400, 90)))), 128);
  EXPECT_EQ(ExpectSame(*warm, Ask(Join(system, Dialogue(500, 60)))), 128);
}

TEST_P(PrefixCache, AHintSavesTheSecondUserToo) {
  const auto warm = Open(kMemory);
  const auto system = Dialogue(0, 150);
  Request first = Ask(Join(system, Dialogue(200, 70)));
  first.cache_points = {150};
  EXPECT_EQ(ExpectSame(*warm, first), 0);
  EXPECT_EQ(ExpectSame(*warm, Ask(Join(system, Dialogue(300, 80)))), 128);
}

/// With a prefix cache or without: each answers as the prompt alone does, which is computed once.
TEST_P(PrefixCache, ChoicesShareTheirPrompt) {
  Request request = Ask(Dialogue(0, 300));
  request.sampling.temperature = 0;  // draws would differ by choice
  const CachedAnswer alone = AnswerOf(*Open(0), request);
  request.choices = 3;
  for (const std::int64_t memory : {std::int64_t{0}, kMemory}) {
    SCOPED_TRACE(memory);
    const auto engine = Open(memory);
    const CachedAnswer answer = AnswerOf(*engine, request);
    ASSERT_EQ(answer.tokens.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(answer.tokens[i], alone.tokens[0]);
      const auto first = answer.logprobs.begin() + std::ssize(alone.logprobs) * static_cast<int>(i);
      EXPECT_TRUE(std::equal(alone.logprobs.begin(), alone.logprobs.end(), first));
    }
    EXPECT_EQ(answer.cached, 0);
    EXPECT_EQ(engine->statistics().prefix_hits, 2u);
    EXPECT_EQ(engine->statistics().prompt_tokens, 300u + 2 * 44);
  }
}

TEST_P(PrefixCache, WithoutOneNoRequestFindsAnothers) {
  const auto engine = Open(0);
  Request request = Ask(Dialogue(0, 300));
  request.choices = 2;
  AnswerOf(*engine, request);
  EXPECT_EQ(AnswerOf(*engine, Ask(request.prompt)).cached, 0);
  EXPECT_EQ(engine->statistics().prompt_tokens, 300u + 44 + 300);
  EXPECT_EQ(engine->statistics().prefix_lookup_tokens, 300u) << "the second choice alone looks";
}

TEST(PrefixCacheMemory, ForLessThanOneStateIsRefused) {
  EngineOptions options;
  options.model = BundledModel();
  options.max_model_len = 128;
  options.prefix_cache_memory = 1000;
  const auto engine = Engine::Create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, Code::kResourceExhausted);
  EXPECT_NE(engine.error().ToString().find("1000 bytes given"), std::string::npos);
  EXPECT_NE(engine.error().ToString().find("--prefix-cache-memory"), std::string::npos);
}

/// Many turns each: too long for sanitizers.
class PrefixCacheConversations : public PrefixCache {};

/// What was generated is shared only when asked for: decode kernels round differently.
TEST_P(PrefixCacheConversations, TheNextTurnFindsTheAnswerWhenAsked) {
  const auto plain = Open(kMemory);
  const auto cold = Open(0);
  for (const std::uint64_t seed : {1, 2, 3}) {  // drafts reach past the page's end or end with it
    const auto sharing = Open(kMemory, /*cache_generated=*/true);
    Request first = Ask(Dialogue(100 * seed, 100));
    first.max_tokens = 104;  // not over in the step that completes the page
    first.sampling.seed = seed;
    const CachedAnswer answer = AnswerOf(*plain, first);
    EXPECT_EQ(AnswerOf(*sharing, first).tokens, answer.tokens);

    // Goes on two tokens after the answer's last page, where the state counts most.
    const Request turn = Ask(Join(first.prompt, std::span(answer.tokens.front()).first(94)));
    const CachedAnswer expected = AnswerOf(*cold, turn);
    const CachedAnswer prompt_alone = AnswerOf(*plain, turn);
    EXPECT_EQ(prompt_alone.cached, 64);
    EXPECT_EQ(prompt_alone.logprobs, expected.logprobs);
    const CachedAnswer hit = AnswerOf(*sharing, turn);
    EXPECT_EQ(hit.cached, 192);
    EXPECT_NEAR(hit.logprobs.front(), expected.logprobs.front(), 0.02) << "more than rounding";
  }
}

TEST_P(PrefixCacheConversations, UnderPressure) {
  // A pool of 21 pages and four snapshots for more than both can hold.
  const std::int64_t state = Open(0)->kv_cache().state_bytes;
  const auto warm = Open(4 * (state + 4096));
  std::mt19937 random(3);
  std::vector<std::vector<TokenId>> prompts = {Dialogue(0, 70), Dialogue(100, 130)};
  std::int64_t cached = 0;
  for (int i = 0; i < 14; ++i) {
    std::vector<TokenId> prompt = prompts[random() % prompts.size()];
    if (prompt.size() > 330) prompt.resize(100 + random() % 200);
    prompt = Join(prompt, Dialogue(random() % 600, 20 + random() % 80));
    Request request = Ask(prompt);
    request.max_tokens = 3;
    cached += ExpectSame(*warm, request);
    prompts.push_back(prompt);
    EXPECT_LE(warm->statistics().prefix_snapshots, 4u);
  }
  EXPECT_GT(cached, 0);
  EXPECT_EQ(warm->kv_cache().free_pages + warm->kv_cache().cached_pages, warm->kv_cache().pages);
}

const auto kSettings = testing::Values(
    CacheSetting{"Fp16"}, CacheSetting{"Fp16Draft3", KvDType::kFp16, 3},
    CacheSetting{"E4M3", KvDType::kE4M3}, CacheSetting{"E4M3Draft3", KvDType::kE4M3, 3});
const auto kNameOfSetting = [](const auto& param_info) { return param_info.param.name; };

INSTANTIATE_TEST_SUITE_P(All, PrefixCache, kSettings, kNameOfSetting);
INSTANTIATE_TEST_SUITE_P(Long, PrefixCacheConversations, kSettings, kNameOfSetting);

}  // namespace
}  // namespace kv8::test
