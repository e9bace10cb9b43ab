// The constraint of one choice at work: masks logits, follows tokens, looks ahead along drafts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kv8/constraint.h"

namespace kv8 {

class ConstrainedOutput {
 public:
  /// `stop_ids` end the choice; they may come only where the text is complete.
  ConstrainedOutput(std::unique_ptr<TokenConstraint> start, std::vector<TokenId> stop_ids);

  /// Makes the logits of all tokens that may not come next -infinity, which no draw and no argmax
  /// chooses. False when none is left.
  bool Mask(std::span<float> logits) { return MaskAt(*here_, logits); }
  /// A token that Mask allowed, and that is no stop id.
  void Push(TokenId token);
  /// Whether the choice must end here.
  bool finished() const { return here_->finished(); }

  /// Mask for the token after the drafts so far; false also when no draft makes sense.
  bool MaskDraft(std::span<float> logits);
  void PushDraft(TokenId token);
  /// Drafts start again at the last token.
  void ForgetDrafts() { ahead_.reset(); }

 private:
  bool MaskAt(TokenConstraint& place, std::span<float> logits);

  std::unique_ptr<TokenConstraint> here_;
  std::unique_ptr<TokenConstraint> ahead_;  // after the drafts; null before the first
  std::vector<TokenId> stop_ids_;
  std::vector<std::uint64_t> mask_;  // working memory
};

}  // namespace kv8
