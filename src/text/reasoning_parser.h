// Parts an answer into reasoning and content, as it comes.
#pragma once

#include <string>
#include <string_view>

namespace kv8 {

/// True when `prompt`, a rendered conversation, ends inside an open `<think>` section.
bool PromptOpensReasoning(std::string_view prompt);

/// What came of a piece of text; either part may be empty.
struct ReasoningDelta {
  std::string reasoning;
  std::string content;
};

/// Splits an answer at its first `</think>`: before it reasoning, after it content. An answer that
/// neither goes on in an open section nor begins with `<think>` is content throughout.
///
/// Markers belong to neither part, nor do the line breaks around them. Apart from those the parts
/// hold every byte. Held back is only what may still turn out to belong to a marker.
class ReasoningParser {
 public:
  /// `open`: the prompt has opened the section (PromptOpensReasoning).
  explicit ReasoningParser(bool open) : open_(open) {}

  ReasoningDelta Push(std::string_view text);
  /// Ends the answer: what was held back belongs to the part that it ended in.
  ReasoningDelta Finish();

  /// Whether the next text is reasoning, as far as is known.
  bool in_reasoning() const;

 private:
  enum class State { kStart, kReasoning, kGap, kContent };

  bool Advance(ReasoningDelta& delta);
  bool AdvanceReasoning(ReasoningDelta& delta);

  bool open_;
  bool at_start_ = false;  // of the reasoning: line breaks there belong to the marker
  State state_ = State::kStart;
  std::string held_;
};

}  // namespace kv8
