// The registry of statistics: what a server exports must add up.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kv8/engine.h"
#include "support/golden.h"

namespace kv8::test {
namespace {

std::uint64_t Sum(const Histogram& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(), std::uint64_t{0});
}

class StatisticsOfAnEngine : public testing::Test {
 protected:
  StatisticsOfAnEngine() {
    EngineOptions options;
    options.model = BundledModel();
    options.max_model_len = 256;
    options.max_num_seqs = 2;
    options.max_num_batched_tokens = 64;
    options.threads = 1;
    options.speculative_tokens = 2;
    options.prefix_cache_memory = 8 << 20;
    engine = Engine::Create(options).value();
  }

  Request Ask(std::int64_t max_tokens) {
    Request request;
    request.prompt = Golden("edge_65").Ints("input_ids");
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    return request;
  }

  std::unique_ptr<Engine> engine;
};

TEST_F(StatisticsOfAnEngine, CountWhatRequestsReport) {
  std::vector<Completion> done;
  const auto keep = [&](Completion completion) { done.push_back(std::move(completion)); };
  for (const std::int64_t max_tokens : {9, 1, 14}) {
    ASSERT_TRUE(engine->Submit(Ask(max_tokens), {}, keep).ok());
  }
  while (engine->Step()) {
  }
  const EngineStatistics s = engine->statistics();
  std::uint64_t computed = 0;
  std::uint64_t cached = 0;
  SpeculationStats drafts;
  for (const Completion& completion : done) {
    computed +=
        static_cast<std::uint64_t>(completion.usage.prompt_tokens - completion.usage.cached_tokens);
    cached += static_cast<std::uint64_t>(completion.usage.cached_tokens);
    drafts.steps += completion.speculation.steps;
    drafts.drafted += completion.speculation.drafted;
    drafts.accepted += completion.speculation.accepted;
  }
  EXPECT_EQ(s.submitted, 3u);
  EXPECT_EQ(s.length, 3u);
  EXPECT_EQ(s.stopped + s.cancelled + s.failed, 0u);
  EXPECT_EQ(s.generated_tokens, 9u + 1 + 14);
  EXPECT_EQ(s.prompt_tokens, computed);
  EXPECT_EQ(s.cached_tokens, cached);
  EXPECT_EQ(s.cached_tokens, s.prefix_hit_pages * 64);
  EXPECT_GT(s.prefix_hits, 0u);
  EXPECT_EQ(s.speculation.steps, drafts.steps);
  EXPECT_EQ(s.speculation.drafted, drafts.drafted);
  EXPECT_EQ(s.speculation.accepted, drafts.accepted);
  EXPECT_GT(drafts.accepted, 0);
}

TEST_F(StatisticsOfAnEngine, HistogramsHoldEachRequestOnce) {
  ASSERT_TRUE(engine->Generate(Ask(9)).ok());
  ASSERT_TRUE(engine->Generate(Ask(1)).ok());  // no second token: nothing between tokens
  const Completion last = engine->Generate(Ask(4)).value();
  const EngineStatistics s = engine->statistics();
  for (const Histogram* h :
       {&s.queue_seconds, &s.prefill_seconds, &s.decode_seconds, &s.first_token_seconds,
        &s.request_seconds, &s.token_seconds, &s.request_prompt_tokens, &s.request_generated_tokens,
        &s.request_longest_choice}) {
    const std::uint64_t expected = h == &s.token_seconds ? 2u : 3u;
    EXPECT_EQ(h->count, expected);
    EXPECT_EQ(Sum(*h), expected);
    EXPECT_EQ(h->counts.size(), h->bounds.size() + 1);
    EXPECT_TRUE(std::is_sorted(h->bounds.begin(), h->bounds.end()));
  }
  EXPECT_GT(s.request_seconds.sum, s.first_token_seconds.sum);
  EXPECT_GE(s.request_seconds.sum,
            s.queue_seconds.sum + s.prefill_seconds.sum + s.decode_seconds.sum);
  EXPECT_EQ(s.request_generated_tokens.sum, 9 + 1 + 4);
  EXPECT_EQ(s.request_longest_choice.sum, 9 + 1 + 4);
  // Speculation gives several tokens in a step.
  EXPECT_GT(s.inter_token_seconds.count, 0u);
  EXPECT_LE(s.inter_token_seconds.count, 8u + 3);
  EXPECT_LE(s.inter_token_seconds.sum, s.request_seconds.sum);
  EXPECT_GT(s.run_seconds, 0);
  EXPECT_GT(s.draft_seconds, 0);
  EXPECT_GT(last.timings.prefill_seconds, 0);
  EXPECT_GT(last.timings.decode_seconds, 0);
  EXPECT_GT(last.timings.decode_tokens_per_second, 0);
}

TEST_F(StatisticsOfAnEngine, GaugesFollowTheQueueAndThePool) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine->Submit(Ask(8), {}, {}).ok());
  EngineStatistics s = engine->statistics();
  EXPECT_EQ(s.waiting, 3u);
  EXPECT_EQ(s.running, 0u);
  EXPECT_EQ(s.free_pages, s.pages);
  engine->Step();
  s = engine->statistics();
  EXPECT_EQ(s.waiting, 1u);
  EXPECT_EQ(s.running, 2u);
  EXPECT_LT(s.free_pages, s.pages);
  while (engine->Step()) {
  }
  s = engine->statistics();
  EXPECT_EQ(s.waiting + s.running, 0u);
  EXPECT_EQ(s.free_pages + s.cached_pages, s.pages);
  EXPECT_EQ(s.saturated_values, 0u);  // FP16 clips nothing
}

}  // namespace
}  // namespace kv8::test
