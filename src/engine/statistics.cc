#include "engine/statistics.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kv8 {
namespace {

double Seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

Histogram MakeHistogram(std::vector<double> bounds) {
  Histogram histogram;
  histogram.counts.resize(bounds.size() + 1);
  histogram.bounds = std::move(bounds);
  return histogram;
}

Histogram OfSeconds() {
  // From under a decode step of a small model to a long prompt of a large one.
  return MakeHistogram(
      {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60});
}

Histogram OfTokens() {
  return MakeHistogram({1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000,
                        100000, 200000, 500000});
}

void Observe(Histogram& histogram, double value) {
  const auto bucket = std::lower_bound(histogram.bounds.begin(), histogram.bounds.end(), value);
  ++histogram.counts[static_cast<std::size_t>(bucket - histogram.bounds.begin())];
  ++histogram.count;
  histogram.sum += value;
}

void CountDrafts(SpeculationStats& stats, std::int64_t drafted, std::int64_t accepted) {
  ++stats.steps;
  stats.drafted += drafted;
  stats.accepted += accepted;
  const auto size = static_cast<std::size_t>(drafted);
  if (stats.drafted_at.size() < size) {
    stats.drafted_at.resize(size);
    stats.accepted_at.resize(size);
  }
  for (std::int64_t i = 0; i < drafted; ++i) {
    ++stats.drafted_at[static_cast<std::size_t>(i)];
    if (i < accepted) ++stats.accepted_at[static_cast<std::size_t>(i)];
  }
}

}  // namespace

Statistics::Statistics() {
  for (Histogram* seconds :
       {&totals_.queue_seconds, &totals_.prefill_seconds, &totals_.decode_seconds,
        &totals_.first_token_seconds, &totals_.token_seconds, &totals_.request_seconds,
        &totals_.inter_token_seconds}) {
    *seconds = OfSeconds();
  }
  for (Histogram* tokens : {&totals_.request_prompt_tokens, &totals_.request_generated_tokens,
                            &totals_.request_longest_choice}) {
    *tokens = OfTokens();
  }
}

void Statistics::OnPlan(const StepPlan& plan) {
  ++totals_.steps;
  totals_.rows += static_cast<std::uint64_t>(plan.rows);
  for (const PlanHit& hit : plan.hits) {
    totals_.cached_tokens += static_cast<std::uint64_t>(hit.sequence->computed);
  }
  for (const PlanItem& item : plan.items) {
    if (item.phase == Phase::kPrefill) {
      totals_.prompt_tokens += static_cast<std::uint64_t>(item.rows);
    }
  }
}

void Statistics::OnStep(const StepClock& clock) {
  totals_.schedule_seconds += Seconds(clock.scheduled - clock.begin);
  totals_.run_seconds += Seconds(clock.ran - clock.scheduled);
  totals_.commit_seconds +=
      Seconds(clock.committed - clock.ran) + Seconds(clock.end - clock.drafted);
  totals_.draft_seconds += Seconds(clock.drafted - clock.committed);
}

void Statistics::OnVerify(std::int64_t drafted, std::int64_t accepted,
                          SpeculationStats& of_request) {
  CountDrafts(totals_.speculation, drafted, accepted);
  CountDrafts(of_request, drafted, accepted);
}

void Statistics::OnOutput(Sequence& sequence) {
  const Clock::time_point now = Clock::now();
  if (sequence.last_output) {
    Observe(totals_.inter_token_seconds, Seconds(now - *sequence.last_output));
  } else if (sequence.choice == 0) {
    Observe(totals_.first_token_seconds, Seconds(now - sequence.request->submitted));
  }
  sequence.last_output = now;
}

void Statistics::OnChoice(FinishReason reason) {
  if (reason == FinishReason::kStop) ++totals_.stopped;
  if (reason == FinishReason::kLength) ++totals_.length;
  if (reason == FinishReason::kCancelled) ++totals_.cancelled;
  if (reason == FinishReason::kError) ++totals_.failed;
}

void Statistics::OnRequest(const RequestRecord& record) {
  const Clock::time_point now = Clock::now();
  Observe(totals_.request_seconds, Seconds(now - record.submitted));
  if (record.started) Observe(totals_.queue_seconds, Seconds(*record.started - record.submitted));
  std::size_t longest = 0;
  std::size_t all = 0;
  for (const Choice& choice : record.completion.choices) {
    longest = std::max(longest, choice.token_ids.size());
    all += choice.token_ids.size();
  }
  Observe(totals_.request_prompt_tokens,
          static_cast<double>(record.completion.usage.prompt_tokens));
  Observe(totals_.request_generated_tokens, static_cast<double>(all));
  Observe(totals_.request_longest_choice, static_cast<double>(longest));
  if (!record.first_token) return;
  Observe(totals_.prefill_seconds, Seconds(*record.first_token - *record.started));
  const double decode = longest < 2 ? 0 : Seconds(record.last_token - *record.first_token);
  Observe(totals_.decode_seconds, decode);
  if (longest >= 2) Observe(totals_.token_seconds, decode / static_cast<double>(longest - 1));
}

EngineStatistics Statistics::Snapshot(const Scheduler& scheduler,
                                      std::span<const SaturationCount> saturation) const {
  EngineStatistics now = totals_;
  now.waiting = scheduler.waiting();
  now.running = scheduler.running().size();
  now.preemptions = scheduler.preemptions();
  now.prefix_lookups = scheduler.prefix_counts().lookups;
  now.prefix_lookup_tokens = scheduler.prefix_counts().tokens;
  now.prefix_hits = scheduler.prefix_counts().hits;
  now.prefix_hit_pages = scheduler.prefix_counts().pages;
  now.prefix_snapshots = static_cast<std::uint64_t>(scheduler.tree().snapshots());
  now.pages = static_cast<std::uint64_t>(scheduler.pages().capacity());
  now.free_pages = static_cast<std::uint64_t>(scheduler.pages().free_count());
  now.cached_pages = static_cast<std::uint64_t>(scheduler.tree().pages());
  for (const SaturationCount& layer : saturation) {
    now.saturated_values += layer.k + layer.v;
    now.flushed_values += layer.flushed_k + layer.flushed_v;
  }
  return now;
}

}  // namespace kv8
