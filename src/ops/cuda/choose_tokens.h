// Tokens drawn from logits: temperature, top-k, top-p and min-p.
#pragma once

#include "base/token_choice.h"
#include "ops/cuda/device_types.h"

namespace kv8::cuda {

/// Tokens are counted and weighed by 32nds of an octave of their probability.
inline constexpr std::int32_t kBinBits = kDistanceBits - 5;
inline constexpr std::int32_t kChoiceBins = kFarthest >> kBinBits;
/// Tokens that one thread block looks at, at least.
inline constexpr std::int32_t kChoicePart = 8192;
/// Tokens among which a row's last thread block chooses without going through all logits again.
inline constexpr std::int32_t kMaxListed = 8192;
inline constexpr int kVocabBits = 24;  // of a token

/// Bins from `first` to `last`; none when last is less.
struct BinRange {
  std::int32_t first, last;
};

/// What the thread blocks of a row tell each other.
struct ChoiceRow {
  std::uint64_t within;      // weight of the tokens that min-p keeps
  BinRange k, p, choice;     // where the cuts and the choice may be
  std::uint32_t candidates;  // tokens in these bins
  std::uint32_t listed;      // of them, in the list so far
  std::int32_t ticket;
};

/// tokens[t] = the token that base/token_choice.h says for rules[t]. Sums are integers: the order
/// in which they come about does not matter. Cuts by top-k and top-p stay in this op; the rest of
/// what a request may ask for (penalties, logit bias, log-probabilities, a constraint) is the
/// host's work.
///
/// Effects  reads and writes tokens, which hold what Argmax chose: left as they are where that is
///          kNoToken or the rule's scale is 0. Scratch but for the list must be zero before the
///          first call and is zero after every call.
struct ChooseTokensArgs {
  const float* logits;  // [T,stride], what Argmax has seen
  std::int64_t stride;
  std::int32_t rows;        // T
  std::int32_t vocab;       // at most 2^kVocabBits
  const ChoiceRule* rules;  // [T]
  std::uint64_t* weights;   // scratch [T,kChoiceBins]
  std::uint32_t* counts;    // scratch [T,kChoiceBins]
  ChoiceRow* state;         // scratch [T]
  std::uint64_t* list;      // scratch [T,kMaxListed]
  std::int32_t* tokens;     // [T]
};

}  // namespace kv8::cuda
