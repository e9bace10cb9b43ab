// The configurations of a verification, measured one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv8/engine.h"
#include "kv8/error.h"
#include "proof/attention.h"
#include "proof/comparison.h"
#include "proof/measurements.h"
#include "proof/part_store.h"
#include "proof/run_inputs.h"
#include "proof/served_arm.h"
#include "proof/verify.h"

namespace kv8 {

/// A measurement that did not run to its end.
struct ArmFailure {
  std::string arm;
  std::string measurement;
  Error error;
};

class ArmRuns {
 public:
  /// All must outlive the object.
  ArmRuns(const VerifyOptions& options, const RunInputs& inputs, const VerifyProgress& progress);

  /// Measures what the output directory does not hold yet. Errors: kCancelled; those of PartStore.
  /// What an arm says is kept in failures().
  Result<void> Measure();

  const ArmResults& a() const { return a_.results; }
  const ArmResults& again() const { return again_.results; }
  const ArmResults& b() const { return b_.results; }
  const std::optional<AttentionResult>& attention() const { return attention_; }
  const std::vector<ArmFailure>& failures() const { return failures_; }
  const std::vector<NotMeasured>& not_measured() const { return not_measured_; }
  /// What an engine of this arm is made with.
  EngineOptions OptionsOf(const ArmSpec& arm) const;

 private:
  struct Arm {
    std::string name;
    const ArmSpec& spec;
    ArmResults results;
  };

  Result<void> MeasureItems(Arm& arm);
  Result<void> MeasureServed(Arm& arm);
  void NoteGaps(const Arm& arm);
  Result<void> MeasureSchedules(Arm& arm);
  Result<void> MeasureBoth();
  Result<Engine*> EngineOf(const Arm& arm);
  struct PartName {
    std::string arm;
    std::string measurement;
    bool served = false;  // then what is not supported is no failure
  };
  template <class T, class MakeFn>
  Result<void> Part(const PartName& name, const Result<Json>& identity, std::uint64_t tokens,
                    std::optional<T>& result, const MakeFn& make);
  Result<void> Tell() const;

  const VerifyOptions& options_;
  const RunInputs& inputs_;
  const VerifyProgress& progress_;
  PartStore store_;
  Arm a_;
  Arm again_;
  Arm b_;
  std::unique_ptr<Engine> engine_;
  const ArmSpec* engine_of_ = nullptr;
  MeasuredCorpus corpus_;
  std::optional<AttentionResult> attention_;
  std::vector<ArmFailure> failures_;
  std::vector<NotMeasured> not_measured_;
  std::uint64_t done_ = 0;
  std::uint64_t all_ = 0;
};

}  // namespace kv8
