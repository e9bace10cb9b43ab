// Attention, stored values and scales on the page of a verification.
#pragma once

#include <string>

#include "base/json.h"

namespace kv8 {

/// Attention by layer, values clipped by margin, scales: what of it `diagnostics` has.
std::string AttentionTables(const Json& diagnostics);

/// How often each code of an E4M3 cache is used, one plot for each layer and side.
std::string CodePlots(const Json& diagnostics);

}  // namespace kv8
