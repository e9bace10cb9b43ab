#include "text/stream_decoder.h"

#include "text/tokenizer.h"

namespace kv8 {

Result<std::string> StreamDecoder::Push(TokenId id) {
  KV8_RETURN_IF_ERROR(tokenizer_->CheckId(id));
  std::string text;
  if (!(skip_special_tokens_ && tokenizer_->IsSpecial(id))) {
    utf8_.Push(tokenizer_->Bytes(id), text);
  }
  return text;
}

std::string StreamDecoder::Finish() {
  std::string text;
  utf8_.Finish(text);
  return text;
}

}  // namespace kv8
