// Text that stands both in a calibration and in an evaluation corpus.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calib/corpus_reader.h"
#include "kv8/error.h"
#include "kv8/types.h"
#include "numeric/split_mix64.h"
#include "proof/evaluation_corpus.h"

namespace kv8 {

/// Tokens of a shingle: a run of tokens that is looked for in the other corpus.
inline constexpr std::size_t kShingleTokens = 64;

/// Shingles of the evaluation, and how many of them the calibration has too. A document shorter
/// than a shingle counts as one.
struct Overlap {
  std::uint64_t shingles = 0;
  std::uint64_t shared = 0;
  std::vector<std::string> categories;  // of documents with a shared one, sorted
  std::vector<std::size_t> copies;      // documents that have no other, from 1

  double share() const {
    return shingles == 0 ? 0 : static_cast<double>(shared) / static_cast<double>(shingles);
  }
};

/// Shingles are compared by 64-bit hashes: of a million on each side, chance makes two of one in
/// fewer than one run of ten million. Memory: 8 bytes and more per token of the calibration.
/// Errors: those of ReadEvaluation, whose keys the calibration may have too.
Result<Overlap> FindOverlap(const CorpusFile& calibration,
                            const std::vector<EvaluationItem>& evaluation,
                            const Tokenizer& tokenizer);

/// Calls `see(hash)` for each shingle of `ids`.
template <class See>
void ForEachShingle(std::span<const TokenId> ids, const See& see) {
  // A polynomial in an odd factor, mod 2^64, mixed; rolls from one shingle to the next.
  constexpr std::uint64_t kFactor = 0xD1342543DE82EF95;
  const std::size_t length = std::min(kShingleTokens, ids.size());
  std::uint64_t leading = 1;
  std::uint64_t hash = 0;
  const auto value = [](TokenId id) { return SplitMix64(static_cast<std::uint64_t>(id)); };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i < length) {
      leading *= i == 0 ? 1 : kFactor;
    } else {
      hash -= leading * value(ids[i - length]);
    }
    hash = hash * kFactor + value(ids[i]);
    if (i + 1 >= length) see(SplitMix64(hash ^ length));
  }
}

}  // namespace kv8
