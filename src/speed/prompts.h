// Prompts that no earlier one begins like.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kv8/error.h"
#include "kv8/types.h"
#include "text/tokenizer.h"

namespace kv8 {

/// Tokens of a corpus in an order that differs for every prompt, or, without one, random ids. The
/// first token of each prompt of a run is another, as long as the vocabulary lasts: no two share a
/// beginning that a prefix cache could find.
class PromptSource {
 public:
  /// Random ids in [0, vocab).
  static PromptSource Random(std::int64_t vocab, std::uint64_t seed);
  /// Errors: those of CorpusReader and Tokenizer::Encode; kInvalidArgument for an empty corpus.
  static Result<PromptSource> OfCorpus(const std::filesystem::path& corpus,
                                       const Tokenizer& tokenizer, std::int64_t vocab,
                                       std::uint64_t seed);

  /// A prompt of `tokens` ids, at least 1.
  std::vector<TokenId> Next(std::int64_t tokens);
  /// For the facts: "random ids, seed 1", or the corpus's hash.
  const std::string& name() const { return name_; }

 private:
  PromptSource(std::int64_t vocab, std::uint64_t seed, std::string name)
      : vocab_(vocab), seed_(seed), name_(std::move(name)) {}

  std::int64_t vocab_;
  std::uint64_t seed_;
  std::string name_;
  std::vector<TokenId> text_;  // of the corpus, one document after another; empty: random
  std::uint64_t count_ = 0;    // prompts made
};

}  // namespace kv8
