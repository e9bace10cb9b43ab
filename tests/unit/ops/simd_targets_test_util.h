// Runs a check once per instruction set that the SIMD ops were compiled for and the machine has.
#pragma once

#include <gtest/gtest.h>

#include "ops/cpu/simd_targets.h"
// After it: Highway reads the list of targets.
#include "hwy/highway.h"

namespace kv8 {

inline void UseSimdTargets(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

template <class Check>
void ForEachSimdTarget(Check&& check) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    UseSimdTargets(target);
    SCOPED_TRACE(hwy::TargetName(target));
    check();
  }
  UseSimdTargets(0);
}

}  // namespace kv8
