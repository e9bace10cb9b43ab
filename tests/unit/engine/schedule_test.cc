// Same tokens and same bits of log-probability, whatever the schedule.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "kv8/engine.h"
#include "support/golden.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"

namespace kv8::test {
namespace {

/// One cell of the matrix.
struct Cell {
  std::string name;
  int batch = 1;
  std::int64_t chunk = 512;
  int threads = 1;
  std::optional<std::int64_t> blocks;  // a pool this small forces preemption
  int drafts = 0;
};

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  bool operator==(const Answer&) const = default;
};

constexpr std::int64_t kMaxLength = 320;
constexpr int kRequests = 16;

std::filesystem::path ScalePack() {
  static const TempDir dir;
  static const std::filesystem::path pack = [] {
    const auto path = dir.path() / "pack";
    MakePack(path);
    return path;
  }();
  return pack;
}

/// Prompts of many lengths, some with a common beginning, half of them sampled.
std::vector<Request> Requests() {
  const auto text = Golden("dialogue").Ints("input_ids");
  std::vector<Request> requests;
  for (int i = 0; i < kRequests; ++i) {
    Request request;
    const std::size_t length = 30 + 17 * static_cast<std::size_t>(i);
    const std::size_t begin = i % 3 == 0 ? 0 : 11 * static_cast<std::size_t>(i);
    request.prompt.assign(text.begin() + static_cast<std::ptrdiff_t>(begin),
                          text.begin() + static_cast<std::ptrdiff_t>(begin + length));
    request.max_tokens = i % 4 == 0 ? 80 : 6 + i % 5;
    request.ignore_eos = true;
    request.logprobs = 0;
    if (i % 4 == 2) request.speculative_tokens = 0;  // several window sizes in one batch
    if (i % 2 == 1) {
      request.sampling.temperature = 0.8f;
      request.sampling.top_p = 0.95f;
      request.sampling.presence_penalty = 0.3f;
      request.sampling.seed = static_cast<std::uint64_t>(i);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::unique_ptr<Engine> Open(const Cell& cell, KvDType dtype) {
  EngineOptions options;
  options.model = BundledModel();
  options.kv_dtype = dtype;
  if (dtype == KvDType::kE4M3) options.scale_pack = ScalePack();
  options.max_model_len = kMaxLength;
  options.max_num_seqs = cell.batch;
  options.prefill_chunk = cell.chunk;
  options.threads = cell.threads;
  options.speculative_tokens = cell.drafts;
  if (cell.blocks) {
    // Three layers of K/V and of index keys, and the draft's.
    const std::int64_t bytes = dtype == KvDType::kE4M3 ? 1 : 2;
    const std::int64_t block = (cell.drafts > 0 ? 4 : 3) * (64 * 2 * 2 * 64 * bytes + 16 * 64 * 2);
    options.kv_memory = *cell.blocks * block;
  }
  auto engine = Engine::Create(options);
  if (!engine.ok()) throw std::runtime_error(engine.error().ToString());
  return std::move(engine).value();
}

std::vector<Answer> AnswersOf(const Cell& cell, KvDType dtype) {
  const auto engine = Open(cell, dtype);
  std::vector<Answer> answers(kRequests);
  int i = 0;
  for (Request& request : Requests()) {
    Answer& answer = answers[static_cast<std::size_t>(i++)];
    const auto id = engine->Submit(std::move(request), {}, [&answer](const Completion& done) {
      answer.tokens = done.choices.front().token_ids;
      for (const auto& p : done.choices.front().logprobs) {
        answer.logprobs.push_back(p.chosen.logprob);
      }
    });
    EXPECT_TRUE(id.ok());
  }
  while (engine->Step()) {
  }
  EXPECT_EQ(engine->kv_cache().free_blocks, engine->kv_cache().blocks);
  if (cell.drafts > 0) {
    EXPECT_GT(engine->statistics().speculation.accepted, 0);
    EXPECT_LT(engine->statistics().speculation.accepted, engine->statistics().speculation.drafted);
  }
  if (cell.blocks) {
    EXPECT_GT(engine->statistics().preemptions, 0u);
  }
  return answers;
}

class Schedule : public testing::TestWithParam<std::tuple<KvDType, Cell>> {};

TEST_P(Schedule, DoesNotChangeResults) {
  const auto& [dtype, cell] = GetParam();
  static std::map<KvDType, std::vector<Answer>> expected;
  if (!expected.contains(dtype)) expected[dtype] = AnswersOf(Cell{}, dtype);
  const std::vector<Answer> answers = AnswersOf(cell, dtype);
  for (int i = 0; i < kRequests; ++i) {
    EXPECT_EQ(answers[static_cast<std::size_t>(i)].tokens,
              expected[dtype][static_cast<std::size_t>(i)].tokens)
        << "request " << i;
    EXPECT_EQ(answers[static_cast<std::size_t>(i)].logprobs,
              expected[dtype][static_cast<std::size_t>(i)].logprobs)
        << "request " << i;
    EXPECT_FALSE(answers[static_cast<std::size_t>(i)].tokens.empty());
  }
}

const Cell kCells[] = {
    {.name = "Chunk64", .chunk = 64},
    {.name = "Chunk1024", .chunk = 1024},
    {.name = "Batch2", .batch = 2},
    {.name = "Batch7Chunk64", .batch = 7, .chunk = 64},
    {.name = "Batch16", .batch = 16},
    {.name = "Batch16Chunk1024Threads2", .batch = 16, .chunk = 1024, .threads = 2},
    {.name = "Batch7Preempted", .batch = 7, .chunk = 64, .blocks = 6},
    {.name = "Batch16PreemptedThreads2", .batch = 16, .threads = 2, .blocks = 9},
    {.name = "Draft1", .drafts = 1},
    {.name = "Draft3Batch7Chunk64", .batch = 7, .chunk = 64, .drafts = 3},
    {.name = "Draft5Batch16", .batch = 16, .drafts = 5},
    {.name = "Draft3Batch7Preempted", .batch = 7, .chunk = 64, .blocks = 6, .drafts = 3},
};

INSTANTIATE_TEST_SUITE_P(All, Schedule,
                         testing::Combine(testing::Values(KvDType::kFp16, KvDType::kE4M3),
                                          testing::ValuesIn(kCells)),
                         [](const auto& param_info) {
                           const bool e4m3 = std::get<0>(param_info.param) == KvDType::kE4M3;
                           return std::string(e4m3 ? "E4M3" : "Fp16") +
                                  std::get<1>(param_info.param).name;
                         });

}  // namespace
}  // namespace kv8::test
