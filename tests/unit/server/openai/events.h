// An engine's events, made by hand.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "server/engine_service.h"
#include "text/tokenizer.h"

namespace kv8 {

inline std::filesystem::path ModelDir() {
  return std::filesystem::path(KV8_SOURCE_DIR) / "models" / "tiny-qwen4exp";
}

inline const Tokenizer& TestTokenizer() {
  static const Tokenizer tokenizer = Tokenizer::Load(ModelDir() / "tokenizer.json").value();
  return tokenizer;
}

/// Plays one choice's tokens to a sink and keeps what the engine would put into its completion.
class ChoicePlayer {
 public:
  ChoicePlayer(GenerationSink& sink, std::size_t request, int choice)
      : sink_(&sink), request_(request), index_(choice) {}

  TokenReply Token(TokenId id, const std::string& text, FinishReason finish = FinishReason::kNone,
                   const PositionLogprobs* logprobs = nullptr) {
    choice_.token_ids.push_back(id);
    choice_.text += text;
    choice_.finish_reason = finish;
    if (logprobs != nullptr) choice_.logprobs.push_back(*logprobs);
    return sink_->OnToken(
        request_,
        {.choice = index_, .token = id, .text = text, .logprobs = logprobs, .finish = finish});
  }
  /// Every piece as a token, the last with `finish`.
  void Text(const std::vector<std::string>& pieces, FinishReason finish = FinishReason::kStop) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      Token(7, pieces[i], i + 1 == pieces.size() ? finish : FinishReason::kNone);
    }
  }

  const Choice& choice() const { return choice_; }

 private:
  GenerationSink* sink_;
  std::size_t request_;
  int index_;
  Choice choice_;
};

}  // namespace kv8
