#include "calib/document_queue.h"

namespace kv8 {

Result<void> DocumentQueue::Read() {
  KV8_ASSIGN_OR_RETURN(auto document, source_.Next());
  at_end_ = !document.has_value();
  if (at_end_) return {};
  waiting_tokens_ += std::ssize(document->ids);
  waiting_.push_back(std::move(*document));
  return {};
}

Result<const TokenDocument*> DocumentQueue::Front() {
  if (waiting_.empty() && !at_end_) KV8_RETURN_IF_ERROR(Read());
  return waiting_.empty() ? nullptr : &waiting_.front();
}

TokenDocument DocumentQueue::Pop() {
  TokenDocument front = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_tokens_ -= std::ssize(front.ids);
  return front;
}

Result<void> DocumentQueue::ReadAhead(std::size_t documents, std::int64_t tokens) {
  while (!at_end_ && waiting_.size() < documents && waiting_tokens_ < tokens) {
    KV8_RETURN_IF_ERROR(Read());
  }
  return {};
}

}  // namespace kv8
