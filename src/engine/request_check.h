// What a request must satisfy before it costs anything.
#pragma once

#include <cstdint>
#include <span>

#include "kv8/error.h"
#include "kv8/request.h"

namespace kv8 {

/// Limits that requests are checked against.
struct RequestLimits {
  std::int64_t vocab = 0;
  std::int64_t choosable = 0;  // ids that may be generated, the first of them: those with a token
  std::int64_t max_model_len = 0;
  std::int64_t checkpoint_len = 0;  // the most that max_model_len could be
  int max_choices = 1;
  int speculative_tokens = 0;
};

/// kInvalidArgument for token ids outside [0, vocab), naming index and id.
Result<void> CheckTokenIds(std::span<const TokenId> ids, std::int64_t vocab, const char* where);

/// Errors: kInvalidArgument, naming the field and both numbers.
Result<void> CheckRequest(const Request& request, const RequestLimits& limits);

}  // namespace kv8
