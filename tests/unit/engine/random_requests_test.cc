// The whole engine under random requests: whatever is cancelled when, pages and slots come back,
// everybody is answered once, and the others' tokens stay theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "kv8/engine.h"
#include "support/golden.h"
#include "support/test_device.h"

namespace kv8::test {
namespace {

constexpr int kTemplates = 6;

/// Short prompts around a page boundary; some begin alike, some are sampled, one has choices.
Request Template(int i) {
  static const auto text = Golden("dialogue").Ints("input_ids");
  Request request;
  request.prompt.assign(text.begin(), text.begin() + 50 + 16 * i);
  request.prompt[static_cast<std::size_t>(i % 2 == 0 ? 49 : 3)] = 200 + i;
  request.max_tokens = 16;  // some cross a page boundary
  request.ignore_eos = true;
  request.sampling.temperature = i % 3 == 1 ? 0.8f : 0.0f;
  request.sampling.seed = static_cast<std::uint64_t>(i);
  if (i == 4) request.choices = 2;
  return request;
}

std::vector<std::vector<TokenId>> TokensOf(const Completion& done) {
  std::vector<std::vector<TokenId>> tokens;
  for (const Choice& choice : done.choices) tokens.push_back(choice.token_ids);
  return tokens;
}

struct Setting {
  std::string name;
  int drafts = 0;
  std::int64_t prefix_memory = 0;
};

std::unique_ptr<Engine> Open(const Setting& setting, bool small) {
  EngineOptions options;
  options.model = BundledModel();
  options.device = TestDevice();
  options.max_model_len = 192;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.threads = small ? 2 : 1;
  options.speculative_tokens = setting.drafts;
  options.prefix_cache_memory = setting.prefix_memory;
  if (small) options.kv_memory = 4 * std::int64_t{setting.drafts > 0 ? 4 : 3} * (32768 + 2048);
  auto engine = Engine::Create(options);
  if (!engine.ok()) throw std::runtime_error(engine.error().ToString());
  return std::move(engine).value();
}

/// Submits, cancels and steps at random, and notes what became of each request.
class Crowd {
 public:
  Crowd(Engine& engine, unsigned seed) : engine_(engine), random_(seed) {}

  void Act() {
    const int what = Random(10);
    if (what < 3) Submit();
    if (what == 3 && !open_.empty()) Cancel();
    engine_.Step();
  }

  void Drain() {
    while (engine_.Step()) {
    }
    EXPECT_TRUE(open_.empty()) << "somebody was never answered";
  }

  /// Checks answers against those of requests that ran alone.
  void Check(const std::vector<std::vector<std::vector<TokenId>>>& expected) {
    for (const auto& [id, request] : requests_) {
      ASSERT_TRUE(request.done.has_value());
      const auto& alone = expected[static_cast<std::size_t>(request.of)];
      const auto tokens = TokensOf(*request.done);
      for (std::size_t c = 0; c < tokens.size(); ++c) {
        const bool whole = request.done->choices[c].finish_reason == FinishReason::kLength;
        ASSERT_LE(tokens[c].size(), alone[c].size());
        EXPECT_TRUE(std::equal(tokens[c].begin(), tokens[c].end(), alone[c].begin()));
        EXPECT_EQ(whole, tokens[c].size() == alone[c].size());
        whole_ += whole ? 1 : 0;
        cut_ += !whole && !tokens[c].empty() ? 1 : 0;
      }
    }
    EXPECT_GT(whole_, 10);
    EXPECT_GT(cut_, 2);
  }

 private:
  struct Asked {
    int of = 0;  // template
    std::int64_t reads = 0;
    std::optional<Completion> done;
  };

  int Random(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  void Submit() {
    const int of = Random(kTemplates);
    // Every fourth client stops reading after some tokens.
    const auto next = std::make_shared<Asked>(Asked{of, Random(4) == 0 ? 1 + Random(8) : 1000, {}});
    const auto on_token = [next](const TokenEvent&) {
      return --next->reads > 0 ? TokenReply::kGoOn : TokenReply::kCancel;
    };
    const auto on_done = [this](Completion done) {
      Asked& asked = requests_.at(done.id);
      EXPECT_FALSE(asked.done.has_value()) << "answered twice";
      std::erase(open_, done.id);
      asked.done = std::move(done);
    };
    const RequestId id = engine_.Submit(Template(of), on_token, on_done).value();
    requests_.emplace(id, *next);
    open_.push_back(id);
  }

  void Cancel() { engine_.Cancel(open_[static_cast<std::size_t>(Random(std::ssize(open_)))]); }

  Engine& engine_;
  std::mt19937 random_;
  std::map<RequestId, Asked> requests_;
  std::vector<RequestId> open_;
  int whole_ = 0;
  int cut_ = 0;
};

class RandomRequests : public testing::TestWithParam<Setting> {};

TEST_P(RandomRequests, AreAnsweredOnceAndLeaveNothingBehind) {
  std::vector<std::vector<std::vector<TokenId>>> expected;
  const auto alone = Open(GetParam(), false);
  for (int i = 0; i < kTemplates; ++i) {
    expected.push_back(TokensOf(alone->Generate(Template(i)).value()));
  }
  const auto engine = Open(GetParam(), true);
  Crowd crowd(*engine, 7);
  for (int i = 0; i < 120; ++i) crowd.Act();
  crowd.Drain();
  crowd.Check(expected);

  const EngineStatistics s = engine->statistics();
  EXPECT_GT(s.preemptions, 0u) << "the pool was never short";
  EXPECT_EQ(s.waiting + s.running, 0u);
  EXPECT_EQ(s.free_pages + s.cached_pages, s.pages);
  for (const KvPageInfo& page : engine->pool_map()) {
    EXPECT_EQ(page.holders, page.cached ? 1 : 0);
    EXPECT_TRUE(page.requests.empty());
  }
  EXPECT_GT(s.prefix_hits, 0u);  // choices share their prompt even without a prefix cache
}

INSTANTIATE_TEST_SUITE_P(Long, RandomRequests,
                         testing::Values(Setting{"Plain"}, Setting{"Draft3", 3},
                                         Setting{"Prefix", 0, 8 << 20},
                                         Setting{"PrefixDraft3", 3, 8 << 20}),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace kv8::test
