#include "text/reasoning_parser.h"

#include <utility>

#include "text/held_text.h"

namespace kv8 {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kBreaks = "\n";

void RemoveBreaks(std::string& text) {
  text.erase(0, std::min(text.find_first_not_of(kBreaks), text.size()));
}

}  // namespace

bool PromptOpensReasoning(std::string_view prompt) {
  const std::size_t last = prompt.find_last_not_of(" \n\r\t");
  return last != prompt.npos && prompt.substr(0, last + 1).ends_with(kOpen);
}

bool ReasoningParser::in_reasoning() const {
  return state_ == State::kReasoning || (state_ == State::kStart && open_);
}

ReasoningDelta ReasoningParser::Push(std::string_view text) {
  held_ += text;
  ReasoningDelta delta;
  while (Advance(delta)) {
  }
  return delta;
}

/// Goes one state further; false when more text is needed for that.
bool ReasoningParser::Advance(ReasoningDelta& delta) {
  switch (state_) {
    case State::kStart: {
      const std::size_t start = std::min(held_.find_first_not_of(kBreaks), held_.size());
      const std::string_view rest = std::string_view(held_).substr(start);
      if (rest.size() < kOpen.size() && kOpen.starts_with(rest)) return false;
      const bool opens = rest.starts_with(kOpen);
      state_ = opens || open_ ? State::kReasoning : State::kContent;
      if (opens) held_.erase(0, start + kOpen.size());
      at_start_ = true;
      return true;
    }
    case State::kReasoning:
      return AdvanceReasoning(delta);
    case State::kGap:
      RemoveBreaks(held_);
      if (held_.empty()) return false;
      state_ = State::kContent;
      return true;
    case State::kContent:
      delta.content += std::exchange(held_, {});
      return false;
  }
  return false;
}

bool ReasoningParser::AdvanceReasoning(ReasoningDelta& delta) {
  if (at_start_) RemoveBreaks(held_);
  at_start_ = at_start_ && held_.empty();
  const std::size_t close = held_.find(kClose);
  if (close == held_.npos) {
    const std::size_t sure = held_.size() - HeldBytes(held_, kClose, kBreaks);
    delta.reasoning.append(held_, 0, sure);
    held_.erase(0, sure);
    return false;
  }
  const std::size_t last = std::string_view(held_).substr(0, close).find_last_not_of(kBreaks);
  delta.reasoning.append(held_, 0, last == held_.npos ? 0 : last + 1);
  held_.erase(0, close + kClose.size());
  state_ = State::kGap;
  return true;
}

ReasoningDelta ReasoningParser::Finish() {
  ReasoningDelta delta;
  if (state_ == State::kStart && open_) RemoveBreaks(held_);
  (in_reasoning() ? delta.reasoning : delta.content) = std::exchange(held_, {});
  return delta;
}

}  // namespace kv8
