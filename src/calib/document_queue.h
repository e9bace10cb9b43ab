// Documents that wait for a pass, read and tokenised before it comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "calib/token_source.h"

namespace kv8 {

class DocumentQueue {
 public:
  explicit DocumentQueue(TokenSource source) : source_(std::move(source)) {}

  /// The next document, null after the last; valid until the next call. Errors: those of
  /// TokenSource::Next.
  Result<const TokenDocument*> Front();
  /// Takes what Front has given.
  TokenDocument Pop();
  /// Reads until so many documents or so many tokens wait, or the last one does. Errors: those of
  /// Front.
  Result<void> ReadAhead(std::size_t documents, std::int64_t tokens);

 private:
  Result<void> Read();

  TokenSource source_;
  std::deque<TokenDocument> waiting_;
  std::int64_t waiting_tokens_ = 0;
  bool at_end_ = false;
};

}  // namespace kv8
