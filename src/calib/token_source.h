// The token ids that a calibration pass runs: a corpus, tokenised and cut to the given limits.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "calib/corpus_reader.h"
#include "kv8/error.h"
#include "text/tokenizer.h"

namespace kv8 {

/// Which documents of a corpus.
enum class CorpusPart { kAll, kFitted, kHeldOut };

/// How much of a corpus is used.
struct TokenLimits {
  std::int64_t document_tokens = 0;  // longest document, at least 1
  bool truncate = false;             // cut longer ones instead of refusing them
  std::uint64_t total_tokens = std::numeric_limits<std::uint64_t>::max();
  /// Documents are held out by the hash of all their tokens, so that a document and its copies are
  /// on the same side whatever the order of the corpus and the limits above.
  int held_out_percent = 0;
  CorpusPart part = CorpusPart::kAll;  // the others are read and passed over
};

/// How far a pass has come, with what it passed over; always between two documents.
struct SourcePosition {
  CorpusPosition corpus;
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
};

struct TokenDocument {
  std::string category;
  std::vector<TokenId> ids;  // at least one
  bool held_out = false;
  std::string where;   // "FILE:LINE", for messages
  SourcePosition end;  // behind it
};

/// Text is used as it is: no special tokens are added, those inside of it are recognised.
class TokenSource {
 public:
  /// `tokenizer` must outlive the source; ids of documents must be below `vocab`.
  TokenSource(std::vector<CorpusFile> files, const Tokenizer& tokenizer, int vocab,
              const TokenLimits& limits, const SourcePosition& from = {});

  /// The next document; nullopt at the end or when the total is reached, the last document being
  /// cut to fit. Errors: those of CorpusReader; kInvalidArgument for an id outside of the
  /// vocabulary; kResourceExhausted for a document above the limit when it must not be cut.
  Result<std::optional<TokenDocument>> Next();

  /// Behind the last document.
  const SourcePosition& position() const { return position_; }
  /// Whether a limit kept something of the corpus back. Final once Next has returned nullopt.
  bool left_out() const { return left_out_; }

 private:
  Result<std::optional<TokenDocument>> NextOfAny();
  Result<std::vector<TokenId>> TokensOf(CorpusDocument document) const;
  Result<void> CutToLimits(std::vector<TokenId>& ids);

  CorpusReader reader_;
  const Tokenizer& tokenizer_;
  std::uint64_t vocab_;
  TokenLimits limits_;
  SourcePosition position_;
  bool left_out_ = false;
};

/// What a whole pass will run.
struct CorpusTotals {
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
  std::uint64_t longest = 0;  // tokens of the longest document
  std::uint64_t held_out_documents = 0;
  bool left_out = false;
};

/// Reads and tokenises everything once: a bad line is found before hours of work, not after.
/// Errors: those of TokenSource::Next.
Result<CorpusTotals> ScanCorpus(TokenSource source);

}  // namespace kv8
