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

CallConstraint::CallConstraint(const Form& form, std::shared_ptr<const TokenConstraint> call,
                               std::unique_ptr<TokenConstraint> instead)
    : form_(form),
      call_(std::move(call)),
      instead_(std::move(instead)),
      stage_(form.start == Start::kAnything ? Stage::kAnything : Stage::kStart) {}

std::unique_ptr<TokenConstraint> CallConstraint::Clone() const {
  auto clone =
      std::make_unique<CallConstraint>(form_, call_, instead_ ? instead_->Clone() : nullptr);
  if (here_) clone->here_ = here_->Clone();
  clone->stage_ = stage_;
  return clone;
}

/// What says which token may come next, beside the tags; null where nothing does.
TokenConstraint* CallConstraint::Inner() const {
  switch (stage_) {
    case Stage::kStart:
    case Stage::kInstead:
      return instead_.get();
    case Stage::kCall:
      return here_->finished() ? nullptr : here_.get();
    default:
      return nullptr;
  }
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
  std::fill(mask.begin(), mask.end(), 0);
  switch (stage_) {
    case Stage::kStart:
      if (instead_) instead_->FillMask(mask);
      return Allow(mask, form_.open);
    case Stage::kInstead:
      return instead_->FillMask(mask);
    case Stage::kAnything:
      return AllowAll(mask, form_.vocab);
    case Stage::kCall:
      if (!here_->finished()) here_->FillMask(mask);
      if (here_->complete()) Allow(mask, form_.close);
      return;
    case Stage::kEnd:
      return;
  }
}

bool CallConstraint::Accept(TokenId token) {
  switch (stage_) {
    case Stage::kStart:
      if (token == form_.open) break;
      if (!instead_ || !instead_->Accept(token)) return false;
      stage_ = Stage::kInstead;
      return true;
    case Stage::kInstead:
      return instead_->Accept(token);
    case Stage::kAnything:
      if (token == form_.open) break;
      return token >= 0 && token < form_.vocab;
    case Stage::kCall:
      return AcceptInCall(token);
    case Stage::kEnd:
      return false;
  }
  here_ = call_->Clone();
  stage_ = Stage::kCall;
  return true;
}

bool CallConstraint::AcceptInCall(TokenId token) {
  if (token != form_.close || !here_->complete()) return here_->Accept(token);
  here_.reset();
  stage_ = form_.only_call ? Stage::kEnd : Stage::kAnything;
  return true;
}

bool CallConstraint::complete() const {
  switch (stage_) {
    case Stage::kStart:
    case Stage::kInstead:
      return instead_ && instead_->complete();
    case Stage::kCall:
      // A call that may hold anything may also break off.
      return here_->complete() && !here_->finished();
    default:
      return true;
  }
}

bool CallConstraint::finished() const {
  return stage_ == Stage::kEnd || (stage_ == Stage::kInstead && instead_->finished());
}

}  // namespace kv8::openai
