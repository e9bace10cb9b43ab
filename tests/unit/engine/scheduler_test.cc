// The scheduler under random schedules: nothing leaks, nothing is owned twice, everybody finishes.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "waiting_sequence.h"

namespace kv8::test {
namespace {

/// Random requests against one scheduler, with a memory that remembers which tokens were written
/// where instead of K and V.
class Simulation {
 public:
  Simulation(unsigned seed, const SchedulerLimits& limits, std::int64_t pages,
             std::int64_t max_tokens)
      : random_(seed),
        limits_(limits),
        scheduler_(limits, pages),
        max_tokens_(max_tokens),
        memory_(static_cast<std::size_t>(pages)) {}

  void Submit() {
    auto record = std::make_unique<RequestRecord>();
    auto sequence = std::make_unique<Sequence>();
    sequence->request = record.get();
    sequence->arrival = arrivals_++;
    sequence->prompt_tokens = Random(1, max_tokens_ - 1);
    sequence->max_total =
        sequence->prompt_tokens + Random(1, max_tokens_ - sequence->prompt_tokens);
    if (limits_.with_draft) sequence->max_drafts = static_cast<int>(Random(0, 3));
    // Prompts agree for a while with one of two others.
    const TokenId family = static_cast<TokenId>(Random(0, 1));
    const std::int64_t common = Random(0, sequence->prompt_tokens);
    for (std::int64_t i = 0; i < sequence->prompt_tokens; ++i) {
      sequence->tokens.push_back(i < common ? family : static_cast<TokenId>(Random(2, 3)));
    }
    scheduler_.Add(*sequence);
    record->sequences.push_back(std::move(sequence));
    live_.push_back(std::move(record));
  }

  void CancelOne() {
    if (live_.empty()) return;
    auto chosen = live_.begin() + Random(0, std::ssize(live_) - 1);
    // Few are preempted at a time, so they get a turn of their own.
    const auto preempted = std::find_if(live_.begin(), live_.end(), [](const auto& record) {
      return record->sequences.front()->stage == Stage::kPreempted;
    });
    if (preempted != live_.end() && Random(0, 1) == 0) chosen = preempted;
    Sequence& sequence = *(*chosen)->sequences.front();
    cancelled_at_.insert(sequence.stage);
    End(sequence);
  }

  void Step() {
    scheduler_.Schedule(plan_);
    MoveMemory();
    CheckPlan();
    for (const PlanItem& item : plan_.items) Write(item);
    for (const PlanItem& item : plan_.items) Commit(item);
    scheduler_.CachePages(plan_, keeps_, dropped_);
    for (const PlanKeep& keep : keeps_) Keep(keep);
    for (const SnapshotId id : dropped_) EXPECT_EQ(snapshots_.erase(id), 1u);
    EXPECT_EQ(std::ssize(snapshots_), scheduler_.tree().snapshots());
    EXPECT_LE(std::ssize(snapshots_), limits_.max_snapshots);
    ended_.clear();
    CheckOwners();
  }

  bool idle() const { return scheduler_.idle(); }
  const Scheduler& scheduler() const { return scheduler_; }
  /// Stages at which something was cancelled.
  const std::set<Stage>& cancelled_at() const { return cancelled_at_; }
  std::int64_t Random(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

 private:
  using Content = std::array<std::vector<TokenId>, kPageTokens>;  // all tokens up to each position

  Content& At(PageId page) { return memory_[static_cast<std::size_t>(page)]; }

  /// What the runner does before it computes.
  void MoveMemory() {
    for (const PlanSave& save : plan_.saves) {
      auto& saved = saved_[save.sequence];
      saved.clear();
      for (const PageId page : save.pages) saved.push_back(At(page));
    }
    for (const PlanCopy& copy : plan_.copies) At(copy.to) = At(copy.from);
    for (const Sequence* sequence : plan_.restores) {
      const auto& saved = saved_.at(sequence);
      for (std::size_t i = 0; i < saved.size(); ++i) At(sequence->pages[i]) = saved[i];
    }
    for (const PlanHit& hit : plan_.hits) {
      ASSERT_TRUE(snapshots_.contains(hit.snapshot)) << "a snapshot that is gone";
      EXPECT_EQ(snapshots_[hit.snapshot], Beginning(*hit.sequence, hit.sequence->computed))
          << "the state after other tokens";
      if (limits_.with_draft) {
        const auto last = static_cast<std::size_t>(hit.sequence->computed / kPageTokens - 1);
        EXPECT_EQ(scheduler_.pages().holders(hit.sequence->pages[last]), 1)
            << "the draft's last row would be written to a shared page";
      }
    }
    for (const SnapshotId id : plan_.dropped) EXPECT_EQ(snapshots_.erase(id), 1u);
  }

  static std::vector<TokenId> Beginning(const Sequence& sequence, std::int64_t count) {
    const std::int64_t committed = std::min(count, sequence.size());
    std::vector<TokenId> tokens(sequence.tokens.begin(), sequence.tokens.begin() + committed);
    for (std::int64_t i = committed; i < count; ++i) tokens.push_back(sequence.TokenAt(i));
    return tokens;
  }

  void Keep(const PlanKeep& keep) {
    const PlanItem& item = plan_.items[keep.item];
    EXPECT_GT(keep.tokens, item.first_position);
    EXPECT_LE(keep.tokens, item.sequence->computed);
    EXPECT_EQ(keep.tokens % kPageTokens, 0);
    if (!limits_.cache_generated) {
      EXPECT_LT(keep.tokens, item.sequence->prompt_tokens);
    }
    snapshots_[keep.snapshot] = Beginning(*item.sequence, keep.tokens);
  }

  void Write(const PlanItem& item) {
    const Sequence& sequence = *item.sequence;
    for (std::int64_t p = 0; p < item.first_position + item.rows; ++p) {
      const PageId page = sequence.pages[static_cast<std::size_t>(p / kPageTokens)];
      auto& content = At(page)[static_cast<std::size_t>(p % kPageTokens)];
      const std::vector<TokenId> expected = Beginning(sequence, p + 1);
      if (p < item.first_position) {
        ASSERT_EQ(content, expected) << "position " << p << " holds something else";
      } else {
        ASSERT_EQ(scheduler_.pages().holders(page), 1) << "writes to a shared page";
        content = expected;
      }
    }
  }

  void Commit(const PlanItem& item) {
    Sequence& sequence = *item.sequence;
    const std::int64_t accepted = Random(0, sequence.draft_count());
    sequence.computed += item.phase == Phase::kPrefill ? item.rows : 1 + accepted;
    if (!item.yields_token()) return;
    sequence.stage = Stage::kDecode;
    for (std::int64_t i = 0; i < accepted; ++i) {
      sequence.tokens.push_back(sequence.drafts[static_cast<std::size_t>(i)].token);
    }
    sequence.tokens.push_back(static_cast<TokenId>(Random(0, 3)));
    sequence.drafts.clear();
    for (std::int64_t i = sequence.useful_drafts(); i > 0; --i) {
      sequence.drafts.push_back({static_cast<TokenId>(Random(0, 3)), {}});
    }
    if (sequence.size() == sequence.max_total) End(sequence);
  }

  void End(Sequence& sequence) {
    scheduler_.Remove(sequence);
    EXPECT_TRUE(sequence.pages.empty());
    const auto found = std::find_if(live_.begin(), live_.end(), [&](const auto& record) {
      return record->sequences.front().get() == &sequence;
    });
    ended_.push_back(std::move(*found));  // the plan still points to it
    live_.erase(found);
  }

  void CheckPlan() {
    std::set<const Sequence*> planned;
    std::int64_t rows = 0;
    bool prompts = false;
    for (const PlanItem& item : plan_.items) {
      const Sequence& sequence = *item.sequence;
      EXPECT_TRUE(planned.insert(&sequence).second) << "planned twice";
      EXPECT_TRUE(sequence.running());
      EXPECT_GT(item.rows, 0);
      rows += item.rows;
      const std::int64_t end = sequence.computed + item.rows;
      EXPECT_LE(end, sequence.size() + sequence.draft_count());
      EXPECT_GE(std::ssize(sequence.pages) * kPageTokens, end);
      if (item.phase == Phase::kPrefill) {
        EXPECT_EQ(sequence.computed % kPageTokens, 0);
        EXPECT_TRUE(end % kPageTokens == 0 || end == sequence.prompt_tokens);
        EXPECT_LE(item.rows, limits_.prefill_chunk);
        prompts = true;
      } else {
        EXPECT_FALSE(prompts) << "decode after a prompt";
      }
    }
    EXPECT_EQ(rows, plan_.rows);
    EXPECT_LE(rows, limits_.max_step_rows);
    for (const PlanSave& save : plan_.saves) {
      EXPECT_FALSE(planned.contains(save.sequence)) << "saved and computed";
    }
  }

  void CheckOwners() {
    std::set<int> slots;
    std::int64_t preempted = 0;
    std::int64_t held = scheduler_.tree().pages();
    for (const auto& record : live_) {
      const Sequence& sequence = *record->sequences.front();
      held += std::ssize(sequence.pages);
      if (sequence.running()) {
        EXPECT_TRUE(slots.insert(sequence.slot).second) << "slot shared";
      } else {
        EXPECT_TRUE(sequence.pages.empty());
        EXPECT_EQ(sequence.slot, -1);
        preempted += sequence.stage == Stage::kPreempted ? 1 : 0;
      }
    }
    EXPECT_LE(preempted, Scheduler::MaxPreempted(limits_));
    EXPECT_LE(preempted + std::ssize(slots), limits_.max_num_seqs) << "started too early";
    const PagePool& pool = scheduler_.pages();
    std::int64_t holders = 0;
    std::int64_t in_use = 0;
    for (std::int64_t page = 0; page < pool.capacity(); ++page) {
      holders += pool.holders(static_cast<PageId>(page));
      in_use += pool.holders(static_cast<PageId>(page)) > 0 ? 1 : 0;
    }
    EXPECT_EQ(holders, held) << "a page leaked, or was given back twice";
    EXPECT_EQ(in_use + pool.free_count(), pool.capacity());
    EXPECT_LE(std::ssize(slots), limits_.max_num_seqs);
  }

  std::mt19937 random_;
  SchedulerLimits limits_;
  Scheduler scheduler_;
  std::int64_t max_tokens_;
  std::uint64_t arrivals_ = 0;
  std::vector<std::unique_ptr<RequestRecord>> live_;
  std::vector<std::unique_ptr<RequestRecord>> ended_;
  std::vector<Content> memory_;
  std::map<const Sequence*, std::vector<Content>> saved_;
  std::map<SnapshotId, std::vector<TokenId>> snapshots_;  // the tokens before each
  std::set<Stage> cancelled_at_;
  StepPlan plan_;
  std::vector<PlanKeep> keeps_;
  std::vector<SnapshotId> dropped_;
};

struct Kind {
  std::string name;
  bool with_draft = false;
  std::int64_t max_snapshots = 0;
  bool cache_generated = false;
};

class RandomSchedules : public testing::TestWithParam<Kind> {};

TEST_P(RandomSchedules, LeakNothingShareNothingWronglyAndFinish) {
  std::uint64_t preemptions = 0;
  std::uint64_t hits = 0;
  std::set<Stage> cancelled_at;
  for (unsigned seed = 0; seed < 20 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const SchedulerLimits limits{.max_num_seqs = 5,
                                 .prefill_chunk = 128,
                                 .max_step_rows = 148,
                                 .with_draft = GetParam().with_draft,
                                 .max_snapshots = GetParam().max_snapshots,
                                 .cache_generated = GetParam().cache_generated};
    Simulation run(seed, limits, 7, 448);
    for (int step = 0; step < 200; ++step) {
      if (run.Random(0, 9) < 2) run.Submit();
      if (run.Random(0, 29) == 0) run.CancelOne();
      run.Step();
    }
    int left = 100'000;
    while (!run.idle() && --left > 0) run.Step();
    EXPECT_TRUE(run.idle()) << "starved";
    EXPECT_EQ(run.scheduler().pages().free_count() + run.scheduler().tree().pages(), 7);
    cancelled_at.insert(run.cancelled_at().begin(), run.cancelled_at().end());
    preemptions += run.scheduler().preemptions();
    hits += run.scheduler().prefix_counts().hits;
  }
  EXPECT_GT(preemptions, 20u) << "the pool was never short: the test shows nothing";
  EXPECT_EQ(cancelled_at,
            (std::set{Stage::kWaiting, Stage::kPreempted, Stage::kPrefill, Stage::kDecode}));
  if (GetParam().max_snapshots > 0) {
    EXPECT_GT(hits, 5u) << "nothing was shared: the test shows nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomSchedules,
                         testing::Values(Kind{"NoPrefixCache"}, Kind{"OneSnapshot", false, 1},
                                         Kind{"ManySnapshots", false, 100}, Kind{"Drafts", true},
                                         Kind{"DraftsAndPrefix", true, 100},
                                         Kind{"Answers", false, 100, true},
                                         Kind{"AnswersOneSnapshot", false, 1, true},
                                         Kind{"AnswersWithDrafts", true, 100, true}),
                         [](const auto& param_info) { return param_info.param.name; });

/// Prompt lengths at which the scheduler wants states, as it computes one prompt.
std::vector<std::int64_t> StatesOf(Scheduler& scheduler, Sequence& sequence) {
  scheduler.Add(sequence);
  std::vector<std::int64_t> states;
  StepPlan plan;
  std::vector<PlanKeep> keeps;
  std::vector<SnapshotId> dropped;
  while (sequence.computed < sequence.prompt_tokens) {
    scheduler.Schedule(plan);
    sequence.computed += plan.items.at(0).rows;
    scheduler.CachePages(plan, keeps, dropped);
    for (const PlanKeep& keep : keeps) states.push_back(keep.tokens);
  }
  scheduler.Remove(sequence);
  return states;
}

TEST(Scheduler, KeepsStatesAtHintsAtDistancesAndWherePromptsPart) {
  Scheduler scheduler({.prefill_chunk = 512, .max_step_rows = 513, .max_snapshots = 100}, 100);
  RequestRecord record;
  record.request.cache_points = {100};  // inside of the second page
  const auto first = Waiting(0, 2200, 2210);
  first->request = &record;
  EXPECT_EQ(StatesOf(scheduler, *first), (std::vector<std::int64_t>{64, 1024, 2048, 2176}));

  record.request.cache_points.clear();
  const auto second = Waiting(1, 800, 810);
  second->request = &record;
  second->tokens[500] = 1;  // the first leaves it inside of the eighth page
  EXPECT_EQ(StatesOf(scheduler, *second), (std::vector<std::int64_t>{448, 768}));
  EXPECT_EQ(scheduler.prefix_counts().hits, 1u);
  EXPECT_EQ(scheduler.prefix_counts().pages, 1u);  // up to the hint

  const auto third = Waiting(2, 800, 810);
  third->request = &record;
  third->tokens[500] = 2;
  EXPECT_EQ(StatesOf(scheduler, *third), (std::vector<std::int64_t>{768}));
  EXPECT_EQ(scheduler.prefix_counts().pages, 1u + 7u);
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
