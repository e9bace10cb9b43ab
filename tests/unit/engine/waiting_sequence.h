// A sequence for tests of the scheduler alone.
#pragma once

#include <memory>

#include "engine/sequence.h"

namespace kv8::test {

/// A waiting sequence.
inline std::unique_ptr<Sequence> Waiting(std::uint64_t arrival, std::int64_t prompt,
                                         std::int64_t total) {
  auto sequence = std::make_unique<Sequence>();
  sequence->arrival = arrival;
  sequence->prompt_tokens = prompt;
  sequence->max_total = total;
  sequence->tokens.resize(static_cast<std::size_t>(prompt));
  return sequence;
}

}  // namespace kv8::test
