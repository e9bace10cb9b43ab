#include "grammar/deferred_constraint.h"

#include <algorithm>
#include <utility>

namespace kv8 {

DeferredConstraint::DeferredConstraint(TokenId marker, std::int64_t vocab,
                                       std::unique_ptr<TokenConstraint> inner)
    : marker_(marker), vocab_(vocab), inner_(std::move(inner)) {}

std::unique_ptr<TokenConstraint> DeferredConstraint::Clone() const {
  auto clone = std::make_unique<DeferredConstraint>(marker_, vocab_, inner_->Clone());
  clone->begun_ = begun_;
  return clone;
}

void DeferredConstraint::FillMask(std::span<std::uint64_t> mask) {
  if (begun_) return inner_->FillMask(mask);
  std::fill(mask.begin(), mask.end(), 0);
  const std::size_t words = std::min(mask.size(), MaskWords(vocab_));
  std::fill_n(mask.begin(), words, ~std::uint64_t{0});
  const auto tail = static_cast<std::uint64_t>(vocab_) % 64;
  if (words == MaskWords(vocab_) && tail != 0) mask[words - 1] = (std::uint64_t{1} << tail) - 1;
}

bool DeferredConstraint::Accept(TokenId token) {
  if (begun_) return inner_->Accept(token);
  if (token < 0 || token >= vocab_) return false;
  begun_ = token == marker_;
  return true;
}

}  // namespace kv8
