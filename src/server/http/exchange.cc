#include "server/http/exchange.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "server/http/error_body.h"

namespace kv8 {
namespace {

/// Waiting bytes of a stream that are worth a send at once, unless its buffer is smaller still.
constexpr std::size_t kMuch = 16 << 10;

}  // namespace

Exchange::Exchange(ResponseFrame frame, std::size_t buffer_limit, Clock::duration gap,
                   std::function<void()> wake)
    : frame_(std::move(frame)), buffer_limit_(buffer_limit), gap_(gap), wake_(std::move(wake)) {}

void Exchange::Wake(std::unique_lock<std::mutex> lock, bool urgent) {
  if (urgent) pause_ = false;
  const bool needed = !woken_ && !pause_ && !closed_;
  woken_ = needed || woken_;
  lock.unlock();
  if (!needed) return;
  try {
    wake_();
  } catch (const std::exception&) {
    // No memory for the message: the session looks by itself every now and then.
  }
}

void Exchange::Send(int status, std::string_view content_type, std::string_view body,
                    const HttpHeaders& headers) {
  std::function<void()> dropped;  // destroyed after the lock is given back
  std::unique_lock lock(mutex_);
  if (stage_ != Stage::kFresh) return;
  std::string bytes;
  if (!closed_) bytes = ResponseHead(frame_, status, content_type, body.size(), headers);
  if (!closed_ && !frame_.head_only) bytes += body;
  // From here on nothing throws: where there is no memory, another answer can still be given.
  stage_ = Stage::kComplete;
  status_ = status;
  body_bytes_ = body.size();
  dropped = std::exchange(on_close_, nullptr);
  if (closed_) return;
  waiting_ = std::move(bytes);
  Wake(std::move(lock), true);
}

void Exchange::BeginStream(int status, std::string_view content_type, const HttpHeaders& headers) {
  std::unique_lock lock(mutex_);
  if (stage_ != Stage::kFresh) return;
  // Without chunks only the end of the connection ends a stream.
  if (frame_.http_1_0) frame_.keep_alive = false;
  if (!closed_) waiting_ = ResponseHead(frame_, status, content_type, std::nullopt, headers);
  stage_ = Stage::kStreaming;
  status_ = status;
  if (closed_) return;
  Wake(std::move(lock), false);  // the first piece may be near
}

/// Notes that a piece comes now; says whether it is the first or none came shortly before.
bool Exchange::ComesApart() {
  const Clock::time_point now = Clock::now();
  const std::optional<Clock::time_point> before = std::exchange(last_piece_, now);
  return !before || now - *before >= gap_;
}

bool Exchange::Write(std::string_view piece) {
  std::unique_lock lock(mutex_);
  if (closed_ || overflowed_ || stage_ != Stage::kStreaming) return false;
  if (piece.empty()) return true;  // an empty chunk would end the stream
  if (waiting_.size() + sending_ + piece.size() > buffer_limit_) {
    overflowed_ = true;
    woken_ = false;  // the session may be stuck in a write that began before: tell it again
    Wake(std::move(lock), true);
    return false;
  }
  if (!frame_.head_only && frame_.http_1_0) waiting_ += piece;
  if (!frame_.head_only && !frame_.http_1_0) AppendChunk(waiting_, piece);
  body_bytes_ += piece.size();
  if (frame_.head_only) return true;
  const bool much = waiting_.size() >= std::min(kMuch, buffer_limit_ / 4);
  const bool apart = ComesApart();
  Wake(std::move(lock), much || apart);
  return true;
}

void Exchange::End() {
  std::function<void()> dropped;
  std::unique_lock lock(mutex_);
  if (stage_ != Stage::kStreaming) return;
  if (!closed_ && !frame_.http_1_0 && !frame_.head_only) waiting_ += kLastChunk;
  stage_ = Stage::kComplete;
  dropped = std::exchange(on_close_, nullptr);
  if (closed_) return;
  Wake(std::move(lock), true);
}

void Exchange::Note(std::string_view name, std::string_view text) {
  const std::lock_guard lock(mutex_);
  notes_.emplace_back(name, text.substr(0, kMaxNoteBytes));
}

void Exchange::OnClose(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::kComplete) return;
    if (!closed_) {
      on_close_ = std::move(callback);
      return;
    }
  }
  callback();
}

void Exchange::Abandon() {
  std::unique_lock lock(mutex_);
  if (stage_ == Stage::kComplete || closed_) return;
  if (stage_ == Stage::kFresh) {
    lock.unlock();
    try {
      const HttpError error{.status = 500, .message = "The server gave no answer."};
      return Send(error.status, "application/json", ErrorBody(error), {});
    } catch (const std::exception&) {
      lock.lock();  // no memory to say so: the connection ends without an answer
    }
  }
  abandoned_ = true;
  Wake(std::move(lock), true);
}

Exchange::Output Exchange::Take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  sending_ = 0;
  if (pause_) return {};
  Output output{.bytes = std::exchange(waiting_, {}),
                .complete = stage_ == Stage::kComplete,
                .broken = overflowed_ || abandoned_};
  sending_ = output.bytes.size();
  pause_ = stage_ == Stage::kStreaming && sending_ > 0;
  output.paced = pause_;
  return output;
}

void Exchange::EndPause() {
  const std::lock_guard lock(mutex_);
  pause_ = false;
}

bool Exchange::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

bool Exchange::complete() const {
  const std::lock_guard lock(mutex_);
  return stage_ == Stage::kComplete;
}

void Exchange::Close() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    waiting_ = {};
    callback = std::exchange(on_close_, nullptr);
  }
  if (callback) callback();
}

Exchange::Summary Exchange::summary() const {
  const std::lock_guard lock(mutex_);
  return {.status = status_,
          .body_bytes = body_bytes_,
          .keep_alive = frame_.keep_alive,
          .notes = notes_};
}

}  // namespace kv8
