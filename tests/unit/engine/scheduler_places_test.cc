// Whom the scheduler lets start while others are preempted.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "engine/mask_worker.h"
#include "engine/scheduler.h"

namespace kv8::test {
namespace {

std::unique_ptr<Sequence> NewSequence(std::uint64_t arrival, std::int64_t prompt,
                                      std::int64_t total) {
  auto sequence = std::make_unique<Sequence>();
  sequence->arrival = arrival;
  sequence->prompt_tokens = prompt;
  sequence->max_total = total;
  sequence->tokens.resize(static_cast<std::size_t>(prompt));
  return sequence;
}

/// Its first mask is found when the test says so.
class LateConstraint final : public TokenConstraint {
 public:
  explicit LateConstraint(const std::atomic<bool>& found) : found_(found) {}
  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<LateConstraint>(found_);
  }
  bool Prepare(std::int64_t) override { return found_; }
  void FillMask(std::span<std::uint64_t>) override {}
  bool Accept(TokenId) override { return true; }
  bool complete() const override { return false; }
  bool finished() const override { return false; }

 private:
  const std::atomic<bool>& found_;
};

void RunStep(Scheduler& scheduler) {
  StepPlan plan;
  scheduler.Schedule(plan);
  for (const PlanItem& item : plan.items) {
    Sequence& sequence = *item.sequence;
    sequence.computed += item.rows;
    sequence.stage = Stage::kDecode;  // prompts take one step here
    sequence.tokens.push_back(0);
  }
}

/// What is saved has a bound because a preempted sequence keeps its place among those that have
/// started, also from an earlier one that a late mask kept from starting.
TEST(Scheduler, NobodyNewStartsInThePlaceOfAPreemptedSequence) {
  std::atomic<bool> found = false;
  MaskWorker worker;
  Scheduler scheduler({.max_num_seqs = 2, .prefill_chunk = 64, .max_step_rows = 130}, 3);
  const auto late = NewSequence(0, 10, 20), first = NewSequence(1, 60, 180),
             second = NewSequence(2, 60, 180);
  late->constraint.emplace(std::make_unique<LateConstraint>(found), std::vector<TokenId>());
  late->constraint->Prepare(worker);
  for (Sequence* sequence : {late.get(), first.get(), second.get()}) scheduler.Add(*sequence);
  for (int step = 0; step < 100 && scheduler.preemptions() == 0; ++step) RunStep(scheduler);
  ASSERT_EQ(second->stage, Stage::kPreempted);
  found = true;
  while (!late->mask_ready()) worker.Wait();
  RunStep(scheduler);
  EXPECT_EQ(late->stage, Stage::kWaiting);
  scheduler.Remove(*first);
  RunStep(scheduler);
  EXPECT_EQ(late->stage, Stage::kDecode);
}

}  // namespace
}  // namespace kv8::test
