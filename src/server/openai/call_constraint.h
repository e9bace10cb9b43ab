// What a "tool_choice" demands of an answer, token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kv8/constraint.h"

namespace kv8::openai {

/// One call, then anything: the token `open`, the text between the tags, the token `close`. The
/// tags are single tokens to the model, which text alone never is.
class CallConstraint final : public TokenConstraint {
 public:
  struct Form {
    TokenId open = 0;        // <tool_call>
    TokenId close = 0;       // </tool_call>
    std::int64_t vocab = 0;  // number of tokens
    bool only_call = false;  // nothing may follow it
  };

  /// `call`: what stands between the tags; it must come to an end by itself. `instead`: what the
  /// answer may be if it does not begin with a call; null: it must.
  CallConstraint(const Form& form, std::unique_ptr<TokenConstraint> call,
                 std::unique_ptr<TokenConstraint> instead);

  std::unique_ptr<TokenConstraint> Clone() const override;
  bool Prepare(std::int64_t work) override;
  void FillMask(std::span<std::uint64_t> mask) override;
  bool Accept(TokenId token) override;
  const Error* failure() const override;
  bool complete() const override;
  bool finished() const override;

 private:
  enum class Stage { kStart, kCall, kInstead, kRest };

  TokenConstraint* Inner() const;
  bool AtClose() const { return stage_ == Stage::kCall && call_->finished(); }

  Form form_;
  std::unique_ptr<TokenConstraint> call_;
  std::unique_ptr<TokenConstraint> instead_;
  Stage stage_ = Stage::kStart;
};

}  // namespace kv8::openai
