// Text cut at the first stop string, as it comes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv8 {

/// Passes text on up to the first stop string. What may turn out to begin one is held back until
/// that is decided.
class StopStrings {
 public:
  /// None of `stops` is empty.
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Appends to `out` what is decided with `text`; nothing once a stop string was met.
  void Push(std::string_view text, std::string& out);
  /// Ends the text, or a part of it that no stop string spans: appends what was held back.
  void Flush(std::string& out);

  /// The stop string that was met; nullptr before.
  const std::string* met() const { return met_ ? &stops_[*met_] : nullptr; }

 private:
  std::size_t HeldBack() const;

  std::vector<std::string> stops_;
  std::string pending_;
  std::optional<std::size_t> met_;  // index
};

}  // namespace kv8
