// Whose prompt is in which pass, and with how many rows.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "waiting_sequence.h"

namespace kv8::test {
namespace {

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

/// Rows that a sequence has in the plan.
std::int64_t RowsOf(const StepPlan& plan, const Sequence& sequence) {
  std::int64_t rows = 0;
  for (const PlanItem& item : plan.items) rows += item.sequence == &sequence ? item.rows : 0;
  return rows;
}

/// While somebody reads along, a pass is short; whoever waits alone gets all of it.
TEST(Scheduler, PromptsLeaveGeneratedTokensAShortPass) {
  Scheduler scheduler({.max_num_seqs = 3,
                       .prefill_chunk = 1024,
                       .prefill_beside_decode = 128,
                       .max_step_rows = 1027},
                      100);
  const auto reader = Waiting(0, 64, 100), first = Waiting(1, 2000, 2010),
             second = Waiting(2, 2000, 2010);
  scheduler.Add(*reader);
  StepPlan plan;
  scheduler.Schedule(plan);
  ASSERT_EQ(RowsOf(plan, *reader), 64);
  reader->computed = 64;
  reader->tokens.push_back(7);
  reader->stage = Stage::kDecode;
  scheduler.Add(*first);
  scheduler.Add(*second);
  scheduler.Schedule(plan);
  EXPECT_EQ(RowsOf(plan, *reader), 1);
  EXPECT_EQ(RowsOf(plan, *first), 128);  // what is left is the other's in the next pass
  EXPECT_EQ(RowsOf(plan, *second), 0);
  first->computed += 128;
  scheduler.Schedule(plan);
  EXPECT_EQ(RowsOf(plan, *second), 128);
  second->computed += 128;
  scheduler.Remove(*reader);
  scheduler.Schedule(plan);
  EXPECT_EQ(RowsOf(plan, *first) + RowsOf(plan, *second), 1024);
}

/// A short prompt that comes while a long one is computed is in the next pass as a whole.
TEST(Scheduler, AShortPromptIsInTheNextPass) {
  Scheduler scheduler({.max_num_seqs = 2, .prefill_chunk = 512, .max_step_rows = 514}, 2000);
  const auto large = Waiting(0, 100'000, 100'010), little = Waiting(1, 300, 310);
  scheduler.Add(*large);
  StepPlan plan;
  for (int step = 0; step < 5; ++step) {
    scheduler.Schedule(plan);
    ASSERT_EQ(RowsOf(plan, *large), 512);
    large->computed += 512;
  }
  scheduler.Add(*little);
  scheduler.Schedule(plan);
  EXPECT_EQ(RowsOf(plan, *little), 300);
  EXPECT_GT(RowsOf(plan, *large), 0);
}

}  // namespace
}  // namespace kv8::test
