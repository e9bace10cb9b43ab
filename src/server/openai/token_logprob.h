// Tokens and their log-probabilities as clients see them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kv8/request.h"
#include "text/tokenizer.h"

namespace kv8::openai {

/// The token's bytes; empty for ids that the model has and the tokenizer has not.
std::string_view TokenBytes(const Tokenizer& tokenizer, TokenId id);

/// The token's text, so that no two tokens with different bytes have the same: "bytes:\xe2\x80"
/// when it is not whole characters, "token_id:7" when it is unknown.
std::string TokenText(const Tokenizer& tokenizer, TokenId id);

/// The log-probability; -9999 in place of minus infinity, which JSON cannot say.
float Logprob(const TokenLogprob& token);

/// Number of characters (code points) in valid UTF-8.
std::size_t CountCharacters(std::string_view text);

}  // namespace kv8::openai
