// The scheduler under random schedules: nothing leaks, nothing is owned twice, everybody finishes.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace kv8::test {
namespace {

/// Random requests against one scheduler, with tokens that cost nothing.
class Simulation {
 public:
  Simulation(unsigned seed, const SchedulerLimits& limits, std::int64_t blocks,
             std::int64_t max_tokens)
      : random_(seed), limits_(limits), scheduler_(limits, blocks), max_tokens_(max_tokens) {}

  void Submit() {
    auto sequence = std::make_unique<Sequence>();
    sequence->arrival = arrivals_++;
    sequence->prompt_tokens = Random(1, max_tokens_ - 1);
    sequence->max_total =
        sequence->prompt_tokens + Random(1, max_tokens_ - sequence->prompt_tokens);
    sequence->tokens.resize(static_cast<std::size_t>(sequence->prompt_tokens));
    scheduler_.Add(*sequence);
    live_.push_back(std::move(sequence));
  }

  void CancelOne() {
    if (live_.empty()) return;
    End(*live_[static_cast<std::size_t>(Random(0, std::ssize(live_) - 1))]);
  }

  void Step() {
    scheduler_.Schedule(plan_);
    CheckPlan();
    for (const PlanItem& item : plan_.items) Commit(item);
    CheckOwners();
  }

  bool idle() const { return scheduler_.idle(); }
  const Scheduler& scheduler() const { return scheduler_; }
  std::int64_t Random(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

 private:
  void Commit(const PlanItem& item) {
    Sequence& sequence = *item.sequence;
    const bool yields = item.yields_token();
    sequence.computed += item.rows;
    if (!yields) return;
    sequence.stage = Stage::kDecode;
    sequence.tokens.push_back(0);
    if (sequence.size() == sequence.max_total) End(sequence);
  }

  void End(Sequence& sequence) {
    scheduler_.Remove(sequence);
    EXPECT_TRUE(sequence.blocks.empty());
    std::erase_if(live_, [&](const auto& other) { return other.get() == &sequence; });
  }

  void CheckPlan() {
    std::set<const Sequence*> planned;
    std::int64_t rows = 0;
    for (const PlanItem& item : plan_.items) {
      const Sequence& sequence = *item.sequence;
      EXPECT_TRUE(planned.insert(&sequence).second) << "planned twice";
      EXPECT_TRUE(sequence.running());
      EXPECT_GT(item.rows, 0);
      rows += item.rows;
      const std::int64_t end = sequence.computed + item.rows;
      EXPECT_LE(end, sequence.size());
      EXPECT_GE(std::ssize(sequence.blocks) * kBlockTokens, end);
      if (item.phase == Phase::kPrefill) {
        EXPECT_EQ(sequence.computed % kBlockTokens, 0);
        EXPECT_LE(item.rows, limits_.prefill_chunk);
      }
    }
    EXPECT_EQ(rows, plan_.rows);
    EXPECT_LE(rows, limits_.max_step_rows);
    for (const PlanSave& save : plan_.saves) {
      EXPECT_FALSE(planned.contains(save.sequence)) << "saved and computed";
    }
  }

  void CheckOwners() {
    std::set<BlockId> blocks;
    std::set<int> slots;
    std::int64_t held = 0;
    for (const auto& sequence : live_) {
      held += std::ssize(sequence->blocks);
      blocks.insert(sequence->blocks.begin(), sequence->blocks.end());
      if (sequence->running()) {
        EXPECT_TRUE(slots.insert(sequence->slot).second) << "slot shared";
      } else {
        EXPECT_TRUE(sequence->blocks.empty());
        EXPECT_EQ(sequence->slot, -1);
      }
    }
    EXPECT_EQ(std::ssize(blocks), held) << "block shared";
    EXPECT_EQ(held + scheduler_.blocks().free_count(), scheduler_.blocks().capacity());
    EXPECT_LE(std::ssize(slots), limits_.max_num_seqs);
  }

  std::mt19937 random_;
  SchedulerLimits limits_;
  Scheduler scheduler_;
  std::int64_t max_tokens_;
  std::uint64_t arrivals_ = 0;
  std::vector<std::unique_ptr<Sequence>> live_;
  StepPlan plan_;
};

TEST(Scheduler, RandomSchedulesLeakNothingAndFinish) {
  std::uint64_t preemptions = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Simulation run(seed, {.max_num_seqs = 5, .prefill_chunk = 128, .max_step_rows = 133}, 10, 600);
    for (int step = 0; step < 300; ++step) {
      if (run.Random(0, 9) < 2) run.Submit();
      if (run.Random(0, 29) == 0) run.CancelOne();
      run.Step();
    }
    int left = 100'000;
    while (!run.idle() && --left > 0) run.Step();
    EXPECT_TRUE(run.idle()) << "starved";
    EXPECT_EQ(run.scheduler().blocks().free_count(), 10);
    preemptions += run.scheduler().preemptions();
  }
  EXPECT_GT(preemptions, 100u) << "the pool was never short: the test shows nothing";
}

/// A waiting sequence.
std::unique_ptr<Sequence> Waiting(std::uint64_t arrival, std::int64_t prompt, std::int64_t total) {
  auto sequence = std::make_unique<Sequence>();
  sequence->arrival = arrival;
  sequence->prompt_tokens = prompt;
  sequence->max_total = total;
  sequence->tokens.resize(static_cast<std::size_t>(prompt));
  return sequence;
}

TEST(Scheduler, PromptsTakeTurns) {
  Scheduler scheduler({.max_num_seqs = 2, .prefill_chunk = 64, .max_step_rows = 66}, 100);
  const auto a = Waiting(0, 640, 650);
  const auto b = Waiting(1, 640, 650);
  scheduler.Add(*a);
  scheduler.Add(*b);
  StepPlan plan;
  for (int step = 0; step < 10; ++step) {
    scheduler.Schedule(plan);
    ASSERT_EQ(plan.items.size(), 1u);
    plan.items[0].sequence->computed += plan.items[0].rows;
  }
  EXPECT_EQ(a->computed, 320);
  EXPECT_EQ(b->computed, 320);
}

TEST(Scheduler, GeneratedTokensRunBesideEveryPrompt) {
  Scheduler scheduler({.max_num_seqs = 2, .prefill_chunk = 64, .max_step_rows = 66}, 100);
  const auto a = Waiting(0, 10, 100);
  scheduler.Add(*a);
  StepPlan plan;
  scheduler.Schedule(plan);
  a->computed = 10;
  a->tokens.push_back(0);
  a->stage = Stage::kDecode;
  const auto b = Waiting(1, 640, 650);
  scheduler.Add(*b);
  scheduler.Schedule(plan);
  ASSERT_EQ(plan.items.size(), 2u);
  EXPECT_EQ(plan.items[0].sequence, a.get());
  EXPECT_EQ(plan.items[0].phase, Phase::kDecode);
  EXPECT_EQ(plan.items[1].rows, 64);
}

}  // namespace
}  // namespace kv8::test
