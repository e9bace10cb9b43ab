#include "text/stop_strings.h"

#include <algorithm>

namespace kv8 {

void StopStrings::Push(std::string_view text, std::string& out) {
  if (met_) return;
  pending_ += text;
  std::size_t first = std::string::npos;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const std::size_t at = pending_.find(stops_[i]);
    if (at >= first) continue;
    first = at;
    met_ = i;
  }
  const std::size_t count = met_ ? first : pending_.size() - HeldBack();
  out.append(pending_, 0, count);
  pending_.erase(0, count);
}

void StopStrings::Flush(std::string& out) {
  if (!met_) out += pending_;
  pending_.clear();
}

/// Length of the longest end of the pending text that begins a stop string.
std::size_t StopStrings::HeldBack() const {
  const std::string_view pending(pending_);
  std::size_t longest = 0;
  for (const std::string_view stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, pending.size()); n > longest; --n) {
      if (stop.starts_with(pending.substr(pending.size() - n))) longest = n;
    }
  }
  return longest;
}

}  // namespace kv8
