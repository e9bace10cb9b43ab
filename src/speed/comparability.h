// Whether two measured targets may be compared.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace kv8 {

/// Facts that must be the same on both sides: which code ran each op, how the model is shared out
/// among ranks, and what accepted drafts follow from. What A and B are compared in, such as the
/// cache type, is none of them.
inline constexpr const char* kRoutesFact = "routes";
inline constexpr const char* kPartitionFact = "partition";
inline constexpr const char* kAcceptanceFact = "acceptance_source";

/// Where the facts of two targets differ, a line each, such as "routes.gdn: simd AVX3 and
/// reference"; none: they can be compared. Something that one of them does not say differs.
std::vector<std::string> Differences(const Json& a, const Json& b);

}  // namespace kv8
