// How far a calibration is, in numbers and in words.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kv8 {

/// Tokens count once per pass over the corpus; the saturation pass repeats some or all of them.
struct CalibrationProgress {
  std::string_view pass;  // what is being measured
  std::uint64_t tokens_done = 0;
  std::uint64_t tokens_total = 0;
};

/// Turns progress into lines for a person, at most one per interval. Its rate counts the work since
/// its first call only, so a resumed run does not take credit for what was done before.
class ProgressMeter {
 public:
  using Monotonic = std::chrono::steady_clock::time_point;
  using WallClock = std::chrono::system_clock::time_point;

  explicit ProgressMeter(std::chrono::milliseconds interval) : interval_(interval) {}

  /// A line such as "ranges: 42.3%, 105432 of 249512 tokens, 5210 tokens/s, 28 s left, done at
  /// 14:32:10" (local time); nullopt when none is due. The last line, at 100%, is always due.
  std::optional<std::string> Update(const CalibrationProgress& progress, Monotonic now,
                                    WallClock wall);

 private:
  std::chrono::milliseconds interval_;
  std::optional<Monotonic> start_;
  std::uint64_t start_tokens_ = 0;
  Monotonic last_line_;
};

}  // namespace kv8
