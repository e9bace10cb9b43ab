// The constraint of one choice at work: masks logits, follows tokens, looks ahead along drafts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/out_of_memory.h"
#include "engine/mask_worker.h"
#include "kv8/constraint.h"

namespace kv8 {

class ConstrainedOutput {
 public:
  /// `stop_ids` end the choice; they may come only where the text is complete.
  ConstrainedOutput(std::unique_ptr<TokenConstraint> start, std::vector<TokenId> stop_ids);

  /// Begins to find the mask for the next token. Nothing but `ready` may be called until it is.
  void Prepare(MaskWorker& worker) { worker.Prepare(here_); }
  bool ready() const { return here_->ready.load(std::memory_order_acquire); }
  /// Finds the mask for the next token if that is cheap.
  bool PrepareNow() { return here_->Prepare(kInlineMaskWork); }

  /// Makes the logits of all tokens that may not come next -infinity, which no draw and no argmax
  /// chooses. False when none is left.
  bool Mask(std::span<float> logits) {
    return here_->Try([&](TokenConstraint& place) { return MaskAt(place, logits); });
  }
  /// A token that Mask allowed, and that is no stop id. False when it cannot be followed: then
  /// there is a failure.
  bool Push(TokenId token) {
    return here_->Try([token](TokenConstraint& place) { return place.Accept(token); });
  }
  /// Why the text can be followed no further, for lack of memory too; null when it can.
  const Error* failure() const {
    return here_->exhausted ? &no_memory_ : here_->constraint->failure();
  }
  /// Whether the choice must end here.
  bool finished() const { return here_->constraint->finished(); }

  /// Mask for the token after the drafts so far; false also when no draft could be accepted, or
  /// when finding it takes long.
  bool MaskDraft(std::span<float> logits);
  void PushDraft(TokenId token);
  /// Drafts start again at the last token.
  void ForgetDrafts() { ahead_.reset(); }

 private:
  bool MaskAt(TokenConstraint& place, std::span<float> logits);
  bool MaskAhead(std::span<float> logits);

  std::shared_ptr<ConstraintPlace> here_;
  std::unique_ptr<TokenConstraint> ahead_;  // after the drafts; null before the first
  std::vector<TokenId> stop_ids_;
  Error no_memory_ = OutOfMemoryError();  // made while there is some
  std::vector<std::uint64_t> mask_;       // working memory
};

}  // namespace kv8
