// Same tokens and same bits of log-probability, whatever the schedule.
//
// The full product of the factors below has 672 cells, minutes of work. The 134 cells that run are
// a covering array of strength 4: whichever four factors are looked at, every combination of their
// values is run. Only a fault that needs five of them to come together could stay unseen.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "kv8/engine.h"
#include "support/golden.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"
#include "support/test_device.h"

namespace kv8::test {
namespace {

/// One cell of the matrix.
struct Cell {
  int batch = 1;
  std::int64_t chunk = 512;
  bool hit = false;        // the longest prompt's beginning is in the prefix cache
  bool preempted = false;  // the pool is so small that sequences have to give way
  int drafts = 0;
  KvDType dtype = KvDType::kFp16;
  int threads = 1;

  std::string Name() const {
    return (dtype == KvDType::kE4M3 ? "E4M3" : "FP16") + std::string(" batch ") +
           std::to_string(batch) + " chunk " + std::to_string(chunk) + (hit ? " hit" : " cold") +
           (preempted ? " preempted" : "") + " drafts " + std::to_string(drafts) + " threads " +
           std::to_string(threads);
  }
};

constexpr std::array kBatches = {1, 2, 7, 16};
constexpr std::array kChunks = {64, 256, 1024};
constexpr std::array kDrafts = {0, 1, 3, 5};
constexpr std::array kDTypes = {KvDType::kFp16, KvDType::kE4M3};

/// Number of a value of each factor, in the order of Cell's members.
using Values = std::array<std::size_t, 7>;
constexpr Values kCounts = {kBatches.size(), kChunks.size(), 2, 2,
                            kDrafts.size(),  kDTypes.size(), 2};

/// One for each set of factors and each cell.
constexpr std::size_t kCodes = [] {
  std::size_t codes = std::size_t{1} << kCounts.size();
  for (const std::size_t count : kCounts) codes *= count;
  return codes;
}();

Cell CellOf(const Values& v) {
  return {.batch = kBatches[v[0]],
          .chunk = kChunks[v[1]],
          .hit = v[2] == 1,
          .preempted = v[3] == 1,
          .drafts = kDrafts[v[4]],
          .dtype = kDTypes[v[5]],
          .threads = static_cast<int>(v[6]) + 1};
}

/// All cells that exist: what runs alone never gives way.
std::vector<Values> AllCells() {
  std::vector<Values> cells;
  for (Values v{}; v.back() < kCounts.back();) {
    if (!CellOf(v).preempted || CellOf(v).batch > 1) cells.push_back(v);
    ++v[0];
    for (std::size_t f = 0; f + 1 < v.size() && v[f] == kCounts[f]; ++f) {
      v[f] = 0;
      ++v[f + 1];
    }
  }
  return cells;
}

/// Which combinations of `strength` values some cells have.
class Coverage {
 public:
  explicit Coverage(int strength) : strength_(strength) {}

  /// How many of the cell's combinations are new.
  std::size_t New(const Values& cell) const {
    std::size_t count = 0;
    ForEach(cell, [&](std::size_t code) { count += seen_[code] ? 0 : 1; });
    return count;
  }
  void Add(const Values& cell) {
    ForEach(cell, [&](std::size_t code) { seen_[code] = true; });
  }

 private:
  template <class Visit>
  void ForEach(const Values& cell, Visit&& visit) const {
    for (unsigned factors = 0; factors < 1u << cell.size(); ++factors) {
      if (std::popcount(factors) != strength_) continue;
      std::size_t code = factors;
      for (std::size_t f = 0; f < cell.size(); ++f) {
        code = code * kCounts[f] + ((factors >> f & 1) != 0 ? cell[f] : 0);
      }
      visit(code);
    }
  }

  int strength_;
  std::vector<bool> seen_ = std::vector<bool>(kCodes);
};

/// A covering array, greedily: always the cell with the most new combinations.
std::vector<Cell> CoveringCells(int strength) {
  Coverage coverage(strength);
  const std::vector<Values> all = AllCells();
  std::vector<Cell> cells;
  while (true) {
    const auto best = std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      return coverage.New(a) < coverage.New(b);
    });
    if (coverage.New(*best) == 0) return cells;
    coverage.Add(*best);
    cells.push_back(CellOf(*best));
  }
}

struct CellAnswer {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;  // of the chosen tokens and of the best
  std::int64_t cached = 0;
};

constexpr std::int64_t kMaxLength = 320;

/// Prompt lengths; each chunk size cuts the first in another way. Many end so close to a page
/// boundary that the output crosses it.
constexpr std::array kLengths = {260, 59, 130, 5, 61, 17, 64, 1, 9, 30, 3, 58, 2, 12, 63, 7, 4};

std::filesystem::path ScalePack() {
  static const TempDir dir;
  static const std::filesystem::path pack = [] {
    const auto path = dir.path() / "pack";
    MakePack(path);
    return path;
  }();
  return pack;
}

/// Every third prompt begins like the first; every second request is sampled.
Request RequestAt(std::size_t i) {
  static const auto text = Golden("dialogue").Ints("input_ids");
  const auto begin = text.begin() + static_cast<std::ptrdiff_t>(i % 3 == 2 || i == 0 ? 0 : 11 * i);
  Request request;
  request.prompt.assign(begin, begin + kLengths[i]);
  if (i > 0) request.prompt.back() = static_cast<TokenId>(100 + i);
  request.max_tokens = i < 2 ? 12 : 4 + i % 3;
  request.ignore_eos = true;
  request.logprobs = 4;
  if (i % 2 == 1) {
    request.sampling.temperature = 0.8f;
    request.sampling.top_p = 0.95f;
    request.sampling.presence_penalty = 0.3f;
    request.sampling.seed = i;
  }
  return request;
}

std::unique_ptr<Engine> Open(const Cell& cell) {
  EngineOptions options;
  options.model = BundledModel();
  options.device = TestDevice();
  options.kv_dtype = cell.dtype;
  if (cell.dtype == KvDType::kE4M3) options.scale_pack = ScalePack();
  options.max_model_len = kMaxLength;
  options.max_num_seqs = cell.batch;
  options.max_num_batched_tokens = cell.chunk;
  options.threads = cell.threads;
  options.speculative_tokens = cell.drafts;
  if (cell.hit) options.prefix_cache_memory = 32 << 20;
  if (cell.preempted) {
    // The first request takes five pages and leaves one for the second, which soon needs another.
    const Result<MemoryPlan> plan = Engine::Plan(options);
    if (!plan.ok()) throw std::runtime_error(plan.error().ToString());
    const std::int64_t pools = plan->kv + plan->index + plan->draft_kv + plan->draft_index;
    options.kv_memory = 6 * (pools / plan->pages);
  }
  auto engine = Engine::Create(options);
  if (!engine.ok()) throw std::runtime_error(engine.error().ToString());
  return std::move(engine).value();
}

/// The first `count` requests, all submitted at once.
std::vector<CellAnswer> AnswersOf(Engine& engine, std::size_t count) {
  std::vector<CellAnswer> answers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = engine.Submit(RequestAt(i), {}, [&answer = answers[i]](const Completion& done) {
      answer.tokens = done.choices.front().token_ids;
      answer.cached = done.usage.cached_tokens;
      for (const PositionLogprobs& p : done.choices.front().logprobs) {
        answer.logprobs.push_back(p.chosen.logprob);
        for (const TokenLogprob& top : p.top) answer.logprobs.push_back(top.logprob);
      }
    });
    EXPECT_TRUE(id.ok());
  }
  while (engine.Step()) {
  }
  return answers;
}

/// Alone, one after the other, without drafts.
const std::vector<CellAnswer>& Expected(KvDType dtype) {
  static std::map<KvDType, std::vector<CellAnswer>> known;
  std::vector<CellAnswer>& answers = known[dtype];
  if (answers.empty()) answers = AnswersOf(*Open({.dtype = dtype}), kLengths.size());
  return answers;
}

void ExpectSameAnswers(const Cell& cell) {
  SCOPED_TRACE(cell.Name());
  const std::vector<CellAnswer>& expected = Expected(cell.dtype);
  const auto engine = Open(cell);
  if (cell.hit) AnswersOf(*engine, 1);
  // One more than run at once: somebody waits, and somebody takes over a used slot.
  const auto answers = AnswersOf(*engine, static_cast<std::size_t>(cell.batch) + 1);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].tokens, expected[i].tokens) << "request " << i;
    EXPECT_EQ(answers[i].logprobs, expected[i].logprobs) << "request " << i;
    EXPECT_FALSE(answers[i].tokens.empty());
  }
  const EngineStatistics s = engine->statistics();
  EXPECT_EQ(answers[0].cached, cell.hit ? 256 : 0);
  EXPECT_EQ(s.preemptions > 0, cell.preempted);
  EXPECT_EQ(s.speculation.drafted > s.speculation.accepted, cell.drafts > 0);
  EXPECT_EQ(s.speculation.accepted > 0, cell.drafts > 0);
  EXPECT_EQ(s.free_pages + s.cached_pages, s.pages);
}

class ScheduleMatrix : public testing::TestWithParam<std::tuple<KvDType, int>> {};

TEST_P(ScheduleMatrix, NeverChangesResults) {
  const auto& [dtype, drafts] = GetParam();
  int count = 0;
  for (const Cell& cell : CoveringCells(4)) {
    if (cell.dtype != dtype || cell.drafts != drafts) continue;
    ExpectSameAnswers(cell);
    ++count;
  }
  EXPECT_GE(count, 4 * 3);
}

INSTANTIATE_TEST_SUITE_P(Long, ScheduleMatrix,
                         testing::Combine(testing::ValuesIn(kDTypes), testing::ValuesIn(kDrafts)),
                         [](const auto& param_info) {
                           const bool e4m3 = std::get<0>(param_info.param) == KvDType::kE4M3;
                           return std::string(e4m3 ? "E4M3" : "Fp16") + "Draft" +
                                  std::to_string(std::get<1>(param_info.param));
                         });

/// Each value of each factor once: what a sanitizer can afford.
TEST(Schedule, NeverChangesResults) {
  for (const Cell& cell : CoveringCells(1)) ExpectSameAnswers(cell);
}

/// Several window sizes side by side.
TEST(Schedule, RequestsMayWantFewerDraftsThanOthers) {
  const auto engine = Open({.batch = 3, .drafts = 5});
  std::vector<std::vector<TokenId>> answers(3);
  for (int i = 0; i < 3; ++i) {
    Request request = RequestAt(1);
    request.speculative_tokens = 2 * i;
    ASSERT_TRUE(engine
                    ->Submit(std::move(request), {},
                             [&, i](const Completion& done) {
                               answers[static_cast<std::size_t>(i)] =
                                   done.choices.front().token_ids;
                               EXPECT_EQ(done.speculation.drafted_at.size(),
                                         static_cast<std::size_t>(2 * i));
                             })
                    .ok());
  }
  while (engine->Step()) {
  }
  for (const auto& tokens : answers) EXPECT_EQ(tokens, Expected(KvDType::kFp16)[1].tokens);
}

}  // namespace
}  // namespace kv8::test
