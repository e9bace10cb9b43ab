// The one registry of engine statistics.
#pragma once

#include <span>

#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "kv8/statistics.h"
#include "kvcache/layout.h"

namespace kv8 {

/// Times of one step, in order.
struct StepClock {
  Clock::time_point begin;
  Clock::time_point scheduled;
  Clock::time_point ran;
  Clock::time_point committed;
  Clock::time_point drafted;
  Clock::time_point end;
};

class Statistics {
 public:
  Statistics();

  void OnSubmit() { ++totals_.submitted; }
  /// A step that was run; before its results are committed.
  void OnPlan(const StepPlan& plan);
  void OnStep(const StepClock& clock);
  void OnToken() { ++totals_.generated_tokens; }
  /// A step gave the sequence tokens.
  void OnOutput(Sequence& sequence);
  /// `drafted` drafts were verified and the first `accepted` of them kept.
  void OnVerify(std::int64_t drafted, std::int64_t accepted, SpeculationStats& of_request);
  void OnChoice(FinishReason reason);
  void OnRequest(const RequestRecord& record);

  /// Counters so far and the gauges of `scheduler`; what each K/V layer lost.
  EngineStatistics Snapshot(const Scheduler& scheduler,
                            std::span<const SaturationCount> saturation) const;

 private:
  EngineStatistics totals_;
};

}  // namespace kv8
