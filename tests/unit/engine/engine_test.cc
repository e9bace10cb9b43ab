// The public engine: reference values, refusals, and results that do not depend on how it ran.
#include "kv8/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/json.h"
#include "support/golden.h"
#include "support/make_engine.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"
#include "support/test_device.h"

namespace kv8::test {
namespace {

using testing::HasSubstr;

EngineOptions Options(KvDType dtype = KvDType::kFp16) {
  EngineOptions options;
  options.model = BundledModel();
  options.device = TestDevice();
  options.kv_dtype = dtype;
  options.max_model_len = 1024;
  options.threads = 1;
  return options;
}

Request Prompt(std::span<const TokenId> ids, std::int64_t max_tokens) {
  Request request;
  request.prompt.assign(ids.begin(), ids.end());
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

std::vector<TokenId> TokensOf(Engine& engine, const Request& request) {
  auto done = engine.Generate(request);
  if (!done.ok()) throw std::runtime_error(done.error().ToString());
  return done->choices.front().token_ids;
}

std::vector<TokenId> ShortPrompt() {
  return Golden("edge_65").Ints("input_ids");
}

class EngineGolden : public testing::TestWithParam<std::string> {};

TEST_P(EngineGolden, GreedyEqualsTheReference) {
  const Golden golden(GetParam());
  const auto ids = golden.Ints("input_ids");
  const auto greedy = golden.Ints("greedy");
  EngineOptions options = Options(KvDType::kFp32);
  options.max_model_len = static_cast<std::int64_t>(ids.size() + greedy.size());
  const auto engine = MakeEngine(options);
  EXPECT_EQ(TokensOf(*engine, Prompt(ids, std::ssize(greedy))), greedy);
}

TEST_P(EngineGolden, ScoreEqualsTheReference) {
  const Golden golden(GetParam());
  const auto ids = golden.Ints("input_ids");
  const auto expected = golden.Floats("nll_all");
  EngineOptions options = Options(KvDType::kFp32);
  options.max_model_len = std::ssize(ids);
  const auto engine = MakeEngine(options);
  const auto score = engine->ScoreTokens(ids, 3);
  ASSERT_TRUE(score.ok()) << score.error().ToString();
  ASSERT_EQ(score->nll.size(), expected.size());
  ASSERT_EQ(score->argmax.size(), ids.size());
  ASSERT_EQ(score->top_logprobs.size(), ids.size());
  const auto mean = [](std::span<const float> v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  EXPECT_NEAR(mean(score->nll), mean(expected), 1e-4);  // the promise of the FP32 cache
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(score->top_logprobs[i].front().token, score->argmax[i]);
    EXPECT_EQ(score->top_logprobs[i].size(), 3u);
  }
}

INSTANTIATE_TEST_SUITE_P(Long, EngineGolden, testing::ValuesIn(Golden::Names(false)),
                         [](const auto& param_info) { return param_info.param; });

TEST(LongEngine, TokensDoNotDependOnThreadsOrChunks) {
  const auto ids = Golden("dialogue").Ints("input_ids");
  std::vector<TokenId> expected;
  for (const int threads : {1, 2}) {
    for (const std::int64_t chunk : {64, 256, 1024}) {
      EngineOptions options = Options();
      options.max_model_len = 2048;
      options.threads = threads;
      options.max_num_batched_tokens = chunk;
      const auto tokens = TokensOf(*MakeEngine(options), Prompt(ids, 12));
      if (expected.empty()) expected = tokens;
      EXPECT_EQ(tokens, expected) << threads << " threads, chunks of " << chunk;
    }
  }
}

TEST(Engine, PoolsAreAsPlanned) {
  EngineOptions options = Options();
  options.max_model_len = 130;
  const KvCacheInfo info = MakeEngine(options)->kv_cache();
  EXPECT_EQ(info.pages, 3);
  // 3 layers, K and V, 2 heads of 64, 2 bytes.
  EXPECT_EQ(info.bytes_per_token, 3 * 2 * 2 * 64 * 2);
  EXPECT_EQ(info.bytes, info.pages * 64 * info.bytes_per_token);
  // 16 keys of 64 values per page and layer, 2 bytes each.
  EXPECT_EQ(info.index_bytes, info.pages * 3 * 16 * 64 * 2);
  EXPECT_EQ(info.layers.size(), 3u);
}

TEST(Engine, TakesWhatThePlanSays) {
  EngineOptions options = Options();
  options.max_num_seqs = 3;
  options.speculative_tokens = 2;
  const auto plan = Engine::Plan(options);
  ASSERT_TRUE(plan.ok());
  const auto engine = MakeEngine(options);
  EXPECT_EQ(plan->total(), engine->memory().total());
  EXPECT_EQ(plan->activations, engine->memory().activations);
  EXPECT_EQ(plan->scratch, engine->memory().scratch);
  EXPECT_EQ(plan->kv + plan->draft_kv, engine->kv_cache().bytes);
  EXPECT_EQ(plan->index + plan->draft_index, engine->kv_cache().index_bytes);
  // A GPU has a slot more, which stays empty, and arrays start at whole lines.
  EXPECT_GE(plan->states, 3 * engine->kv_cache().state_bytes);
  TokensOf(*engine, Prompt(ShortPrompt(), 9));
  EXPECT_EQ(plan->pages, engine->kv_cache().free_pages);
}

TEST(Engine, AllPagesComeBack) {
  const auto engine = MakeEngine(Options());
  TokensOf(*engine, Prompt(ShortPrompt(), 3));
  EXPECT_EQ(engine->kv_cache().free_pages, engine->kv_cache().pages);
}

TEST(Engine, StreamsEveryTokenOnceAndInOrder) {
  const auto engine = MakeEngine(Options());
  std::vector<TokenId> streamed;
  std::vector<FinishReason> reasons;
  const auto done = engine->Generate(Prompt(ShortPrompt(), 5), [&](const TokenEvent& event) {
    streamed.push_back(event.token);
    reasons.push_back(event.finish);
    return TokenReply::kGoOn;
  });
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(streamed, done->choices.front().token_ids);
  EXPECT_EQ(reasons.back(), FinishReason::kLength);
  EXPECT_EQ(reasons.front(), FinishReason::kNone);
  EXPECT_EQ(done->usage.prompt_tokens, 65);
  EXPECT_EQ(done->usage.completion_tokens, 5);
  EXPECT_GT(done->timings.prefill_tokens_per_second, 0);
  EXPECT_GT(done->timings.decode_tokens_per_second, 0);
}

TEST(Engine, ACallbackCanStopTheRequest) {
  const auto engine = MakeEngine(Options());
  const auto done = engine->Generate(Prompt(ShortPrompt(), 100),
                                     [](const TokenEvent&) { return TokenReply::kCancel; });
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->choices.front().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(done->choices.front().token_ids.size(), 1u);
  EXPECT_EQ(engine->kv_cache().free_pages, engine->kv_cache().pages);
}

TEST(Engine, ACallbackCanEndOneChoice) {
  EngineOptions options = Options();
  options.max_num_seqs = 2;
  const auto engine = MakeEngine(options);
  Request request = Prompt(ShortPrompt(), 6);
  request.choices = 2;
  const auto done = engine->Generate(request, [](const TokenEvent& event) {
    return event.choice == 0 ? TokenReply::kStop : TokenReply::kGoOn;
  });
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->choices[0].finish_reason, FinishReason::kStop);
  EXPECT_EQ(done->choices[0].token_ids.size(), 1u);
  EXPECT_EQ(done->choices[1].finish_reason, FinishReason::kLength);
  EXPECT_EQ(done->choices[1].token_ids.size(), 6u);
  const KvCacheInfo cache = engine->kv_cache();
  EXPECT_EQ(cache.free_pages + cache.cached_pages, cache.pages);
}

TEST(Engine, CancelsAtEveryStage) {
  const auto engine = MakeEngine(Options());
  std::vector<FinishReason> reasons;
  const auto note = [&](const Completion& done) {
    reasons.push_back(done.choices.front().finish_reason);
  };
  const auto submit = [&] { return engine->Submit(Prompt(ShortPrompt(), 50), {}, note).value(); };
  const RequestId running = submit();
  const RequestId waiting = submit();
  const RequestId untouched = submit();
  engine->Step();
  engine->Step();
  engine->Cancel(waiting);
  engine->Cancel(running);
  engine->Cancel(running);  // a second time: nothing
  EXPECT_EQ(reasons, std::vector<FinishReason>(2, FinishReason::kCancelled));
  engine->Step();
  engine->Cancel(untouched);
  EXPECT_EQ(reasons.size(), 3u);
  EXPECT_FALSE(engine->Step());
  EXPECT_EQ(engine->kv_cache().free_pages, engine->kv_cache().pages);
  EXPECT_EQ(engine->statistics().cancelled, 3u);
}

TEST(Engine, CancelsWhatGaveWay) {
  EngineOptions options = Options();
  options.max_model_len = 128;
  options.max_num_seqs = 2;
  options.kv_memory = Engine::Plan(options)->kv / 2 + Engine::Plan(options)->index / 2;
  const auto engine = MakeEngine(options);
  std::vector<TokenId> prompt = ShortPrompt();
  prompt.resize(62);
  std::vector<std::size_t> lengths;
  const auto note = [&](const Completion& done) {
    lengths.push_back(done.choices.front().token_ids.size());
  };
  engine->Submit(Prompt(prompt, 20), {}, note).value();
  const RequestId later = engine->Submit(Prompt(prompt, 20), {}, note).value();
  while (engine->statistics().preemptions == 0) ASSERT_TRUE(engine->Step());
  engine->Cancel(later);
  while (engine->Step()) {
  }
  ASSERT_EQ(lengths.size(), 2u);
  EXPECT_LT(lengths[0], 20u);
  EXPECT_EQ(lengths[1], 20u);
  EXPECT_EQ(engine->kv_cache().free_pages, engine->kv_cache().pages);
}

TEST(Engine, StopsOnAStopIdUnlessToldOtherwise) {
  const auto engine = MakeEngine(Options());
  Request request = Prompt(ShortPrompt(), 8);
  const auto tokens = TokensOf(*engine, request);
  request.stop_ids = {tokens[2]};
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[2]) - tokens.begin();
  const auto done = engine->Generate(request);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->choices.front().finish_reason, FinishReason::kStop);
  EXPECT_EQ(std::ssize(done->choices.front().token_ids), first + 1);
}

TEST(Engine, BiasedTowardsTheCheckpointsStopId) {
  const auto engine = MakeEngine(Options());
  const TokenId stop = engine->model().stop_ids.front();
  Request request = Prompt(ShortPrompt(), 4);
  request.sampling.logit_bias = {{stop, 1000.0f}};
  EXPECT_EQ(TokensOf(*engine, request), std::vector<TokenId>(4, stop));
  request.ignore_eos = false;
  EXPECT_EQ(TokensOf(*engine, request), std::vector<TokenId>{stop});
}

TEST(Engine, ZeroTokensComputeThePromptAlone) {
  const auto engine = MakeEngine(Options());
  Request request = Prompt(ShortPrompt(), 0);
  request.prompt_logprobs = 2;
  const auto done = engine->Generate(request);
  ASSERT_TRUE(done.ok());
  EXPECT_TRUE(done->choices.front().token_ids.empty());
  ASSERT_EQ(done->prompt_logprobs.size(), 64u);
  const auto score = engine->ScoreTokens(ShortPrompt());
  ASSERT_TRUE(score.ok());
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_FLOAT_EQ(-done->prompt_logprobs[i].chosen.logprob, score->nll[i]);
  }
}

TEST(Engine, LogprobsAreThoseOfTheChosenTokens) {
  const auto engine = MakeEngine(Options());
  Request request = Prompt(ShortPrompt(), 4);
  request.logprobs = 2;
  const auto done = engine->Generate(request);
  ASSERT_TRUE(done.ok());
  const Choice& choice = done->choices.front();
  ASSERT_EQ(choice.logprobs.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choice.logprobs[i].chosen.token, choice.token_ids[i]);
    EXPECT_EQ(choice.logprobs[i].top.front().token, choice.token_ids[i]);  // greedy
    EXPECT_LT(choice.logprobs[i].chosen.logprob, 0);
  }
}

TEST(Engine, TextIsThatOfTheTokensAndEndsBeforeTheStopString) {
  const auto engine = MakeEngine(Options());
  Request request = Prompt(ShortPrompt(), 24);
  request.text = true;
  std::string streamed;
  const auto keep = [&](const TokenEvent& event) {
    streamed += event.text;
    return TokenReply::kGoOn;
  };
  const auto whole = engine->Generate(request, keep);
  ASSERT_TRUE(whole.ok());
  const std::string text = whole->choices.front().text;
  EXPECT_EQ(streamed, text);
  ASSERT_GT(text.size(), 12u);

  request.stop = {text.substr(7, 4)};
  streamed.clear();
  const auto cut = engine->Generate(request, keep);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->choices.front().text, text.substr(0, text.find(request.stop.front())));
  EXPECT_EQ(cut->choices.front().text, streamed);
  EXPECT_EQ(cut->choices.front().stop_string, request.stop.front());
  EXPECT_EQ(cut->choices.front().finish_reason, FinishReason::kStop);
}

/// Creation must fail with this flag or file named.
void ExpectRefused(const EngineOptions& options, Code code, const std::string& where) {
  const auto engine = Engine::Create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, code) << engine.error().ToString();
  EXPECT_THAT(engine.error().ToString(), HasSubstr(where));
  EXPECT_FALSE(engine.error().remedy.empty());
}

TEST(EngineRefuses, OptionsThatCannotWork) {
  EngineOptions options = Options();
  options.max_model_len = 1 << 20;
  ExpectRefused(options, Code::kInvalidArgument, "--max-model-len");
  options = Options();
  options.max_num_batched_tokens = 100;
  ExpectRefused(options, Code::kInvalidArgument, "--max-num-batched-tokens");
  options = Options();
  options.max_num_seqs = 0;
  ExpectRefused(options, Code::kInvalidArgument, "--max-num-seqs");
  options = Options();
  options.speculative_tokens = 6;
  ExpectRefused(options, Code::kInvalidArgument, "--speculative-tokens");
  options = Options();
  options.kv_memory = 1000;
  ExpectRefused(options, Code::kResourceExhausted, "--kv-memory");
  options = Options();
  options.device_memory = 1 << 30;
  ExpectRefused(options, Code::kInvalidArgument, "--device-memory");
  options = Options();
  options.backend = "abacus";
  ExpectRefused(options, Code::kUnsupported, "abacus");
}

TEST(EngineRefuses, AnE4M3CacheWithoutScales) {
  const auto engine = Engine::Create(Options(KvDType::kE4M3));
  ASSERT_FALSE(engine.ok());
}

TEST(EngineRefuses, DraftsWithoutADraftHead) {
  const TempDir dir;
  CopyTinyModel(dir / "model");
  const auto path = dir / "model" / "config.json";
  Json config = Json::parse(Slurp(path));
  config["text_config"].erase("mtp");
  config["text_config"]["mtp_num_hidden_layers"] = 0;
  std::filesystem::remove(path);  // a link to the original
  WriteFile(path, config.dump());
  EngineOptions options = Options();
  options.model = dir / "model";
  EXPECT_FALSE(MakeEngine(options)->model().has_draft_head);
  options.speculative_tokens = 1;
  ExpectRefused(options, Code::kInvalidArgument, "--speculative-tokens");
}

TEST(EngineRefuses, SharedAnswersWithoutAPrefixCache) {
  EngineOptions options = Options();
  options.cache_generated = true;
  ExpectRefused(options, Code::kInvalidArgument, "--prefix-cache-memory");
}

TEST(EngineRefuses, AScalePackWithoutAnE4M3Cache) {
  EngineOptions options = Options();
  options.scale_pack = "/nonexistent";
  ExpectRefused(options, Code::kInvalidArgument, "scale pack");
}

TEST(EngineRefuses, RequestsThatCannotRunAndStaysUsable) {
  const auto engine = MakeEngine(Options());
  EXPECT_FALSE(engine->Generate(Prompt({}, 4)).ok());
  const std::vector<TokenId> outside = {1, 1 << 20};
  EXPECT_FALSE(engine->Generate(Prompt(outside, 4)).ok());
  EXPECT_FALSE(engine->Generate(Prompt(ShortPrompt(), 1024)).ok());
  EXPECT_FALSE(engine->ScoreTokens({}).ok());
  EXPECT_FALSE(engine->ScoreTokens(outside).ok());
  EXPECT_EQ(TokensOf(*engine, Prompt(ShortPrompt(), 2)).size(), 2u);
}

}  // namespace
}  // namespace kv8::test
