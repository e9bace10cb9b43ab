// What would make a plan fit.
#pragma once

#include <functional>
#include <string>

#include "plan/capacity.h"

namespace kv8 {

/// Whether a changed request fits, with the same cache type.
using Fits = std::function<bool(const PlanRequest&)>;

/// The mildest change that `fits` says yes to, as flags; where none does, what to buy or shrink.
std::string RemedyFor(const PlanRequest& request, const CapacityPlan& plan, const Fits& fits);

}  // namespace kv8
