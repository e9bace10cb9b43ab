// A constraint that begins after a marker, such as the end of a model's reasoning.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kv8/constraint.h"

namespace kv8 {

/// Anything may come up to and including the first token `marker`; then `inner` holds. The text is
/// not complete before that. `vocab` is the number of tokens.
class DeferredConstraint final : public TokenConstraint {
 public:
  DeferredConstraint(TokenId marker, std::int64_t vocab, std::unique_ptr<TokenConstraint> inner);

  std::unique_ptr<TokenConstraint> Clone() const override;
  bool Prepare(std::int64_t work) override { return !begun_ || inner_->Prepare(work); }
  void FillMask(std::span<std::uint64_t> mask) override;
  bool Accept(TokenId token) override;
  const Error* failure() const override { return begun_ ? inner_->failure() : nullptr; }
  bool complete() const override { return begun_ && inner_->complete(); }
  bool finished() const override { return begun_ && inner_->finished(); }

 private:
  TokenId marker_;
  std::int64_t vocab_;
  std::unique_ptr<TokenConstraint> inner_;
  bool begun_ = false;
};

}  // namespace kv8
