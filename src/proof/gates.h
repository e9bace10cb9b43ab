// Gates: limits that figures of a verification must keep.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

/// Largest gates file, bytes, and most gates in it.
inline constexpr std::uint64_t kMaxGatesBytes = 1 << 20;
inline constexpr std::size_t kMaxGates = 1000;

/// What was measured, by name.
using Figures = std::map<std::string, double>;

struct Gate {
  std::string name;    // for people
  std::string figure;  // its key in Figures
  std::optional<double> at_most;
  std::optional<double> at_least;
  bool if_measured = false;  // else a figure that is missing fails the gate
};

struct GateResult {
  Gate gate;
  std::optional<double> value;
  bool passed = false;
};

/// Errors: kCorrupt, naming key and gate: a missing or unknown key, a wrong type, no limit, a limit
/// that is not finite, a name that comes twice, no gate at all.
Result<std::vector<Gate>> ParseGates(const Json& json, std::string_view where);

/// The gates that kv8 ships, as a file's text.
std::string_view DefaultGatesText();

std::vector<GateResult> CheckGates(const std::vector<Gate>& gates, const Figures& figures);

}  // namespace kv8
