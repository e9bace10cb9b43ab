#include "speed/prompts.h"

#include <fmt/format.h>

#include <utility>

#include "numeric/split_mix64.h"
#include "proof/evaluation_corpus.h"

namespace kv8 {

PromptSource PromptSource::Random(std::int64_t vocab, std::uint64_t seed) {
  return {vocab, seed, fmt::format("random ids, seed {}", seed)};
}

Result<PromptSource> PromptSource::OfCorpus(const std::filesystem::path& corpus,
                                            const Tokenizer& tokenizer, std::int64_t vocab,
                                            std::uint64_t seed) {
  KV8_ASSIGN_OR_RETURN(const CorpusFile file, IdentifyCorpusFile(corpus));
  KV8_ASSIGN_OR_RETURN(const auto items, ReadEvaluation(file, tokenizer));
  PromptSource source(vocab, seed, fmt::format("corpus {}, seed {}", file.sha256, seed));
  for (const EvaluationItem& item : items) {
    source.text_.insert(source.text_.end(), item.ids.begin(), item.ids.end());
  }
  if (source.text_.empty()) {
    return Error{Code::kInvalidArgument, "has no token", corpus.string(),
                 "give a corpus with text, or leave --corpus out for random ids"};
  }
  return source;
}

std::vector<TokenId> PromptSource::Next(std::int64_t tokens) {
  const std::uint64_t number = count_++;
  std::vector<TokenId> ids;
  ids.reserve(static_cast<std::size_t>(tokens));
  // Neighbours of the vocabulary, wherever they begin.
  const auto vocab = static_cast<std::uint64_t>(vocab_);
  ids.push_back(static_cast<TokenId>((SplitMix64(seed_) + number) % vocab));
  const std::uint64_t start = SplitMix64(seed_ ^ SplitMix64(number + 1));
  while (std::ssize(ids) < tokens) {
    const std::uint64_t i = start + ids.size();
    ids.push_back(text_.empty() ? static_cast<TokenId>(SplitMix64(i) % vocab)
                                : text_[i % text_.size()]);
  }
  return ids;
}

}  // namespace kv8
