#include "calib/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/sha256.h"

namespace kv8 {
namespace {

bool IsHeldOut(const std::vector<TokenId>& ids, int percent) {
  if (percent == 0) return false;
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(ids)));
  std::uint64_t first = 0;
  for (const char digit : hash.FinishHex().substr(0, 8)) {
    first = first * 16 + static_cast<std::uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return first % 100 < static_cast<std::uint64_t>(percent);
}

}  // namespace

TokenSource::TokenSource(std::vector<CorpusFile> files, const Tokenizer& tokenizer, int vocab,
                         const TokenLimits& limits, const SourcePosition& from)
    : reader_(std::move(files), from.corpus),
      tokenizer_(tokenizer),
      vocab_(static_cast<std::uint64_t>(vocab)),
      limits_(limits),
      position_(from) {}

Result<std::optional<TokenDocument>> TokenSource::Next() {
  for (;;) {
    KV8_ASSIGN_OR_RETURN(auto document, NextOfAny());
    if (!document || limits_.part == CorpusPart::kAll ||
        document->held_out == (limits_.part == CorpusPart::kHeldOut)) {
      return document;
    }
  }
}

Result<std::optional<TokenDocument>> TokenSource::NextOfAny() {
  auto next = reader_.Next();
  if (!next.ok()) return std::move(next).error();
  if (!next->has_value()) return std::optional<TokenDocument>();
  if (position_.tokens >= limits_.total_tokens) {
    left_out_ = true;
    return std::optional<TokenDocument>();
  }
  CorpusDocument& document = **next;
  TokenDocument out{.category = document.category, .ids = {}, .where = reader_.Where(), .end = {}};
  KV8_ASSIGN_OR_RETURN(out.ids, TokensOf(std::move(document)));
  out.held_out = IsHeldOut(out.ids, limits_.held_out_percent);
  KV8_RETURN_IF_ERROR(CutToLimits(out.ids));
  position_.corpus = reader_.position();
  position_.documents += 1;
  position_.tokens += out.ids.size();
  out.end = position_;
  return std::optional(std::move(out));
}

Result<std::vector<TokenId>> TokenSource::TokensOf(CorpusDocument document) const {
  if (document.token_ids.empty()) {
    auto ids = tokenizer_.Encode(document.text);
    if (ids.ok()) return ids;
    Error error = std::move(ids).error();
    error.where = reader_.Where();
    return error;
  }
  for (const TokenId id : document.token_ids) {
    if (static_cast<std::uint64_t>(id) < vocab_) continue;
    return Error{Code::kInvalidArgument,
                 fmt::format(R"("token_ids" has {}; the model has {} tokens)", id, vocab_),
                 reader_.Where(), "use ids of this checkpoint's tokenizer"};
  }
  return std::move(document.token_ids);
}

Result<void> TokenSource::CutToLimits(std::vector<TokenId>& ids) {
  const std::size_t whole = ids.size();
  const auto longest = static_cast<std::size_t>(limits_.document_tokens);
  if (whole > longest && !limits_.truncate) {
    return Error{Code::kResourceExhausted,
                 fmt::format("the document has {} tokens; the model takes {}", whole, longest),
                 reader_.Where(), "split the document, or cut every longer one with --truncate N"};
  }
  const std::uint64_t left = limits_.total_tokens - position_.tokens;
  ids.resize(static_cast<std::size_t>(std::min<std::uint64_t>(std::min(whole, longest), left)));
  left_out_ = left_out_ || ids.size() < whole;
  return {};
}

Result<CorpusTotals> ScanCorpus(TokenSource source) {
  CorpusTotals totals;
  for (;;) {
    KV8_ASSIGN_OR_RETURN(const auto document, source.Next());
    if (!document) break;
    totals.longest = std::max<std::uint64_t>(totals.longest, document->ids.size());
    totals.held_out_documents += document->held_out ? 1 : 0;
  }
  totals.documents = source.position().documents;
  totals.tokens = source.position().tokens;
  totals.left_out = source.left_out();
  return totals;
}

}  // namespace kv8
