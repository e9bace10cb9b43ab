// Where an answer waits between the thread that gives it and the connection that sends it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/responder.h"
#include "server/http/response_head.h"

namespace kv8 {

/// The shared half of a Responder and its session. Thread-safe.
///
/// A wake of the session, the send that follows and the client's own wake cost a hundred times what
/// making a token's event does, so a stream is paced. It is in a pause at first, and again after
/// each Take with a part of it: what comes then waits for the session, which comes back by itself.
/// Much data, the end, the first piece and pieces that come apart wake it at once.
class Exchange {
 public:
  using Clock = std::chrono::steady_clock;

  /// `buffer_limit`: bytes of a stream that may wait. `gap`: pieces that come apart by this do not
  /// wait. `wake`: asks the session to call Take soon; called from any thread.
  Exchange(ResponseFrame frame, std::size_t buffer_limit, Clock::duration gap,
           std::function<void()> wake);

  // The calls of Responder.
  void Send(int status, std::string_view content_type, std::string_view body,
            const HttpHeaders& headers);
  void BeginStream(int status, std::string_view content_type, const HttpHeaders& headers);
  bool Write(std::string_view piece);
  void End();
  void Note(std::string_view name, std::string_view text);
  void OnClose(std::function<void()> callback);
  /// The responder is gone: an answer that is not complete never will be.
  void Abandon();

  // The calls of the session.
  struct Output {
    std::string bytes;      // to send now
    bool complete = false;  // nothing follows them
    bool broken = false;    // the connection must end: the client is too slow, or Abandon
    bool paced = false;     // call EndPause soon, then Take: what comes until then does not wake
  };
  /// What came since the last Take, whose bytes are sent by now; nothing during a pause.
  Output Take();
  /// What came meanwhile may be taken, and what comes later wakes again.
  void EndPause();
  /// Whether the client let too much wait; it will not get better.
  bool overflowed() const;
  /// Whether the whole answer was given, sent or not.
  bool complete() const;
  /// The connection is gone.
  void Close();

  struct Summary {
    int status = 0;  // 0: none yet
    std::uint64_t body_bytes = 0;
    bool keep_alive = true;
    std::vector<std::pair<std::string_view, std::string>> notes;
  };
  Summary summary() const;

 private:
  enum class Stage { kFresh, kStreaming, kComplete };

  /// `urgent`: even in a pause.
  void Wake(std::unique_lock<std::mutex> lock, bool urgent);
  bool ComesApart();

  mutable std::mutex mutex_;
  ResponseFrame frame_;
  const std::size_t buffer_limit_;
  const Clock::duration gap_;
  const std::function<void()> wake_;
  std::function<void()> on_close_;
  Stage stage_ = Stage::kFresh;
  std::string waiting_;
  std::size_t sending_ = 0;  // bytes of the last Take
  int status_ = 0;
  std::uint64_t body_bytes_ = 0;
  std::vector<std::pair<std::string_view, std::string>> notes_;
  std::optional<Clock::time_point> last_piece_;
  bool woken_ = false;  // a wake is under way
  bool pause_ = true;   // before or between parts of a paced stream
  bool closed_ = false;
  bool overflowed_ = false;
  bool abandoned_ = false;
};

/// The half that handlers hold.
class ExchangeResponder final : public Responder {
 public:
  explicit ExchangeResponder(std::shared_ptr<Exchange> exchange, std::size_t client = 0)
      : exchange_(std::move(exchange)), client_(client) {}
  ~ExchangeResponder() override { exchange_->Abandon(); }
  ExchangeResponder(const ExchangeResponder&) = delete;
  ExchangeResponder& operator=(const ExchangeResponder&) = delete;

  void Send(int status, std::string_view content_type, std::string body,
            HttpHeaders headers) override {
    exchange_->Send(status, content_type, body, headers);
  }
  std::size_t client() const override { return client_; }
  void BeginStream(int status, std::string_view content_type, HttpHeaders headers) override {
    exchange_->BeginStream(status, content_type, headers);
  }
  bool Write(std::string_view piece) override { return exchange_->Write(piece); }
  void End() override { exchange_->End(); }
  void Note(std::string_view name, std::string_view text) override { exchange_->Note(name, text); }
  void OnClose(std::function<void()> callback) override { exchange_->OnClose(std::move(callback)); }

 private:
  std::shared_ptr<Exchange> exchange_;
  const std::size_t client_;
};

}  // namespace kv8
