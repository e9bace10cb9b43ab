// What a "tool_choice" demands of an answer, token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kv8/constraint.h"

namespace kv8::openai {

/// Calls in an answer, each one the token `open`, the text between the tags, the token `close`. The
/// tags are single tokens to the model, which text alone never is.
class CallConstraint final : public TokenConstraint {
 public:
  /// What the answer begins with.
  enum class Start {
    kCall,
    kAnything,    // in which calls may come
    kCallOrForm,  // a call, or all of another form
  };
  struct Form {
    TokenId open = 0;        // <tool_call>
    TokenId close = 0;       // </tool_call>
    std::int64_t vocab = 0;  // number of tokens
    Start start = Start::kCall;
    bool only_call = false;  // nothing may follow the first call
  };

  /// `call`: what stands between the tags; the call may be closed where it is complete. `instead`:
  /// the other form of kCallOrForm, else null.
  CallConstraint(const Form& form, std::shared_ptr<const TokenConstraint> call,
                 std::unique_ptr<TokenConstraint> instead);

  std::unique_ptr<TokenConstraint> Clone() const override;
  bool Prepare(std::int64_t work) override;
  void FillMask(std::span<std::uint64_t> mask) override;
  bool Accept(TokenId token) override;
  const Error* failure() const override;
  bool complete() const override;
  bool finished() const override;

 private:
  enum class Stage {
    kStart,
    kInstead,
    kAnything,
    kCall,
    kEnd,
  };

  TokenConstraint* Inner() const;
  bool AcceptInCall(TokenId token);

  Form form_;
  std::shared_ptr<const TokenConstraint> call_;
  std::unique_ptr<TokenConstraint> instead_;
  std::unique_ptr<TokenConstraint> here_;  // the place in the call at hand
  Stage stage_;
};

}  // namespace kv8::openai
