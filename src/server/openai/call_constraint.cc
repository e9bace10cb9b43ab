#include "server/openai/call_constraint.h"

#include <algorithm>
#include <utility>

namespace kv8::openai {
namespace {

void Allow(std::span<std::uint64_t> mask, TokenId token) {
  const auto bit = static_cast<std::size_t>(token);
  if (bit / 64 < mask.size()) mask[bit / 64] |= std::uint64_t{1} << bit % 64;
}

void AllowAll(std::span<std::uint64_t> mask, std::int64_t vocab) {
  const auto whole = std::min(mask.size(), static_cast<std::size_t>(vocab) / 64);
  std::fill_n(mask.begin(), whole, ~std::uint64_t{0});
  for (auto token = static_cast<TokenId>(whole * 64); token < vocab; ++token) Allow(mask, token);
}

}  // namespace

CallConstraint::CallConstraint(const Form& form, std::unique_ptr<TokenConstraint> call,
                               std::unique_ptr<TokenConstraint> instead)
    : form_(form), call_(std::move(call)), instead_(std::move(instead)) {}

std::unique_ptr<TokenConstraint> CallConstraint::Clone() const {
  auto clone = std::make_unique<CallConstraint>(form_, call_->Clone(),
                                                instead_ ? instead_->Clone() : nullptr);
  clone->stage_ = stage_;
  return clone;
}

/// What says which token may come next, beside the tags; null where nothing does.
TokenConstraint* CallConstraint::Inner() const {
  if (stage_ == Stage::kRest || AtClose()) return nullptr;
  return stage_ == Stage::kCall ? call_.get() : instead_.get();
}

bool CallConstraint::Prepare(std::int64_t work) {
  TokenConstraint* inner = Inner();
  return inner == nullptr || inner->Prepare(work);
}

const Error* CallConstraint::failure() const {
  const TokenConstraint* inner = Inner();
  return inner == nullptr ? nullptr : inner->failure();
}

void CallConstraint::FillMask(std::span<std::uint64_t> mask) {
  if (stage_ == Stage::kInstead) return instead_->FillMask(mask);
  if (stage_ == Stage::kCall && !AtClose()) return call_->FillMask(mask);
  std::fill(mask.begin(), mask.end(), 0);
  if (stage_ == Stage::kRest) {
    if (!form_.only_call) AllowAll(mask, form_.vocab);
    return;
  }
  if (AtClose()) return Allow(mask, form_.close);
  if (instead_) instead_->FillMask(mask);
  Allow(mask, form_.open);
}

bool CallConstraint::Accept(TokenId token) {
  switch (stage_) {
    case Stage::kStart:
      if (token == form_.open) {
        stage_ = Stage::kCall;
        return true;
      }
      if (!instead_ || !instead_->Accept(token)) return false;
      stage_ = Stage::kInstead;
      return true;
    case Stage::kInstead:
      return instead_->Accept(token);
    case Stage::kCall:
      if (!AtClose()) return call_->Accept(token);
      if (token != form_.close) return false;
      stage_ = Stage::kRest;
      return true;
    case Stage::kRest:
      return !form_.only_call && token >= 0 && token < form_.vocab;
  }
  return false;
}

bool CallConstraint::complete() const {
  if (stage_ == Stage::kRest) return true;
  if (stage_ == Stage::kCall) return false;
  return instead_ && instead_->complete();
}

bool CallConstraint::finished() const {
  if (stage_ == Stage::kRest) return form_.only_call;
  return stage_ == Stage::kInstead && instead_->finished();
}

}  // namespace kv8::openai
