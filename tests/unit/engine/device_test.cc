// What every device must do with many sequences and with long ones.
#include <gtest/gtest.h>

#include <cmath>

#include "device/device.h"
#include "kv8/engine.h"
#include "support/golden.h"
#include "support/make_engine.h"
#include "support/test_device.h"

namespace kv8::test {
namespace {

EngineOptions Options(DeviceKind device) {
  EngineOptions options;
  options.model = BundledModel();
  options.device = device;
  options.threads = 1;
  return options;
}

/// `count` tokens of text.
std::vector<TokenId> Text(std::size_t begin, std::size_t count) {
  static const auto all = [] {
    std::vector<TokenId> ids;
    for (const char* name : {"needle_mid", "long_en", "dialogue", "code", "tools", "zh"}) {
      const auto part = Golden(name).Ints("input_ids");
      ids.insert(ids.end(), part.begin(), part.end());
    }
    return ids;
  }();
  std::vector<TokenId> text;
  for (std::size_t i = 0; i < count; ++i) text.push_back(all[(begin + i) % all.size()]);
  return text;
}

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
};

/// All requests at once.
std::vector<Answer> AnswersOf(Engine& engine, const std::vector<Request>& requests) {
  std::vector<Answer> answers(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto keep = [&answer = answers[i]](const Completion& done) {
      answer.tokens = done.choices.front().token_ids;
      for (const PositionLogprobs& p : done.choices.front().logprobs) {
        answer.logprobs.push_back(p.chosen.logprob);
      }
    };
    EXPECT_TRUE(engine.Submit(requests[i], {}, keep).ok());
  }
  while (engine.Step()) {
  }
  return answers;
}

Request Ask(std::vector<TokenId> prompt, std::int64_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.logprobs = 0;
  return request;
}

/// Of every kind that a device may do by itself, and one that the host must do.
SamplingOptions AnySampling(std::size_t i) {
  SamplingOptions options;
  options.seed = i;
  if (i % 4 == 0) return options;  // the best token
  options.temperature = i % 4 == 1 ? 0.7f : 1.2f;
  if (i % 3 == 0) options.top_k = 1 + static_cast<int>(i);
  if (i % 5 < 3) options.top_p = 0.9f;
  if (i % 7 < 2) options.min_p = 0.05f;
  if (i % 13 == 3) options.presence_penalty = 0.5f;
  return options;
}

class LargeBatch : public testing::TestWithParam<int> {};

TEST_P(LargeBatch, AnswersAsAlone) {
  if (TestDevice() == DeviceKind::kCpu) GTEST_SKIP() << "schedule_test.cc, and this takes long";
  EngineOptions options = Options(TestDevice());
  options.max_model_len = 448;
  options.max_num_seqs = 64;
  options.speculative_tokens = GetParam();
  std::vector<Request> requests;
  for (std::size_t i = 0; i < 64; ++i) {
    requests.push_back(Ask(Text(97 * i, 6 * i + 2), 12));
    requests.back().sampling = AnySampling(i);
  }
  const auto together = AnswersOf(*MakeEngine(options), requests);
  auto plain = requests;  // on a device that chooses by itself, logits stay there
  for (Request& request : plain) request.logprobs.reset();
  const auto chosen_there = AnswersOf(*MakeEngine(options), plain);
  options.max_num_seqs = 1;
  options.speculative_tokens = 0;
  const auto alone = AnswersOf(*MakeEngine(options), requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(together[i].tokens, alone[i].tokens) << "request " << i;
    EXPECT_EQ(together[i].logprobs, alone[i].logprobs) << "request " << i;
    EXPECT_EQ(chosen_there[i].tokens, alone[i].tokens) << "request " << i;
    EXPECT_EQ(together[i].tokens.size(), 12u);
  }
}

INSTANTIATE_TEST_SUITE_P(Device, LargeBatch, testing::Values(0, 3));

/// 16K tokens: chunks and drafts change nothing, and the CPU says the same.
TEST(LongContext, IsTheSameForAnyCutAndOnTheCpu) {
  if (TestDevice() == DeviceKind::kCpu) GTEST_SKIP() << "compares a device with the CPU";
  constexpr std::int64_t kLength = 16384;
  const Request request = Ask(Text(0, kLength - 40), 40);
  EngineOptions options = Options(TestDevice());
  options.max_model_len = kLength;
  options.max_num_batched_tokens = 4096;
  const auto expected = AnswersOf(*MakeEngine(options), {request});
  options.max_num_batched_tokens = 576;
  options.speculative_tokens = 4;
  const auto cut = AnswersOf(*MakeEngine(options), {request});
  EXPECT_EQ(cut[0].tokens, expected[0].tokens);
  EXPECT_EQ(cut[0].logprobs, expected[0].logprobs);

  options = Options(TestDevice());
  options.max_model_len = kLength;
  const auto on_device = MakeEngine(options)->ScoreTokens(request.prompt);
  options.device = DeviceKind::kCpu;
  options.threads = 0;
  const auto on_cpu = MakeEngine(options)->ScoreTokens(request.prompt);
  ASSERT_TRUE(on_device.ok() && on_cpu.ok());
  double difference = 0, sum = 0;
  for (std::size_t i = 0; i < on_cpu->nll.size(); ++i) {
    difference += std::abs(on_device->nll[i] - on_cpu->nll[i]);
    sum += on_device->nll[i] - on_cpu->nll[i];
  }
  // Queries and softmax weights are FP16 on the GPU: single tokens differ by some 1e-3, and as
  // often up as down.
  const auto count = static_cast<double>(on_cpu->nll.size());
  EXPECT_LT(difference / count, 5e-3);
  EXPECT_LT(std::abs(sum) / count, 5e-4);
}

TEST(DeviceMemory, IsRefusedWithNumbersBeforeItIsTaken) {
  if (TestDevice() == DeviceKind::kCpu) GTEST_SKIP() << "host memory is given on first use";
  EngineOptions options = Options(TestDevice());
  options.max_model_len = 1024;
  options.kv_memory = std::int64_t{1} << 44;
  const auto engine = Engine::Create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, Code::kResourceExhausted);
  const std::string text = engine.error().ToString();
  for (const char* part : {"weights", "cache", "states", "activations", "free", "--kv-memory"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(DeviceMemory, IsWhatThePlanSays) {
  if (TestDevice() == DeviceKind::kCpu) GTEST_SKIP() << "the CPU's plan has a test of its own";
  EngineOptions options = Options(TestDevice());
  options.max_model_len = 1024;
  options.max_num_seqs = 8;
  options.speculative_tokens = 2;
  const auto plan = Engine::Plan(options);
  ASSERT_TRUE(plan.ok());
  const auto device = Device::Open().value();
  const std::int64_t before = device->Memory()->free_bytes;
  const auto engine = MakeEngine(options);
  EXPECT_EQ(engine->memory().total(), plan->total());
  EXPECT_GT(plan->weights, 0);
  // The driver takes memory for code beside what it is asked for, and rounds up.
  constexpr std::int64_t kDriver = 256 << 20;
  const std::int64_t taken = before - device->Memory()->free_bytes;
  const std::int64_t on_device = plan->total() - plan->host();
  EXPECT_GE(taken, on_device);
  EXPECT_LE(taken, on_device + kDriver);
}

TEST(DeviceRefusal, NamesWhatTheGpuDoesNotHave) {
  EngineOptions options = Options(DeviceKind::kCuda);
  options.max_model_len = 128;
  options.kv_dtype = KvDType::kFp32;
  const auto engine = Engine::Create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, Code::kUnsupported);
  EXPECT_NE(engine.error().ToString().find("fp32"), std::string::npos);
  if (Device::List().ok()) return;
  options.kv_dtype = KvDType::kFp16;
  const auto absent = Engine::Create(options);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kUnsupported);
  EXPECT_FALSE(absent.error().remedy.empty());
}

}  // namespace
}  // namespace kv8::test
