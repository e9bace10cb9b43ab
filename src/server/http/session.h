// One connection: reads requests one after the other, and sends their answers in that order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http/admission.h"
#include "server/http/body_memory.h"
#include "server/http/exchange.h"
#include "server/http/limits.h"
#include "server/http/log.h"
#include "server/http/request_reader.h"
#include "server/http/router.h"
#include "server/http/server.h"
#include "server/http/stream.h"

namespace kv8 {

/// What all sessions of a server share.
struct SessionContext {
  explicit SessionContext(const ServerLimits& given) : limits(given) {}

  const ServerLimits limits;
  BodyMemory bodies{limits.all_bodies_bytes};
  Router router;
  AdmissionRules rules;
  Log* log = nullptr;
  HttpStatistics statistics;
  std::atomic<bool> shutting_down{false};
};

/// Lives on the I/O thread. Reads on while an answer is under way, to see the client go; what it
/// sends meanwhile waits its turn.
class Session : public std::enable_shared_from_this<Session> {
 public:
  using Clock = std::chrono::steady_clock;

  /// `loop` brings answers of other threads to the I/O thread. `on_closed` is called once.
  Session(std::unique_ptr<Stream> stream, std::shared_ptr<SessionContext> context,
          std::weak_ptr<IoLoop> loop, std::function<void(Session&)> on_closed);

  void Start();
  /// Ends what took too long, and looks after an answer; called every now and then.
  void Sweep(Clock::time_point now);
  /// Between two requests, or before the first.
  bool idle() const { return phase_ == Phase::kIdle; }
  bool answering() const { return phase_ == Phase::kAnswer; }
  Clock::time_point deadline() const { return deadline_; }
  /// Closes now if no request is under way; otherwise the answer is the last.
  void FinishSoon();
  void Close();

 private:
  enum class Phase { kHandshake, kIdle, kHead, kBody, kAnswer, kLinger, kClosed };

  void OnHandshake(bool ok);
  void OnDeadline();
  void Read();
  void OnRead(bool ok, std::size_t bytes);
  void OnPeerFinished();
  void Parse();
  bool ShareGrows();
  void Admit();
  void Dispatch();
  void Refuse(const Refusal& refusal);
  void BeginAnswer();
  void AnswerOptions();
  void CallHandler();
  void Flush();
  void FlushLater();
  void WriteOut();
  void WriteRest();
  void OnWritten(bool ok, std::size_t bytes);
  void FinishAnswer();
  template <class Step>
  void Guard(Step step);
  void OnException();
  void Linger();
  void LogAnswer(bool complete) const;
  void SetDeadline(std::chrono::milliseconds from_now);
  void ClearDeadline() { deadline_ = Clock::time_point::max(); }

  const std::unique_ptr<Stream> stream_;
  const std::shared_ptr<SessionContext> context_;
  const std::weak_ptr<IoLoop> loop_;
  const std::function<void(Session&)> on_closed_;
  const std::string peer_;

  Phase phase_ = Phase::kHandshake;
  Clock::time_point deadline_ = Clock::time_point::max();

  bool reading_ = false;
  bool peer_finished_ = false;  // nothing more can be read
  std::vector<char> chunk_;     // the read under way goes here
  std::string in_;              // received, not yet understood

  // The request at hand.
  std::optional<RequestReader> reader_;
  std::shared_ptr<BodyMemory::Share> body_share_;
  std::optional<Refusal> refusal_;  // decided from the head
  const Handler* handler_ = nullptr;
  std::string allowed_methods_;
  std::string method_;  // for the log, after the handler has taken the request
  std::string path_;
  std::string request_id_;
  Clock::time_point began_;
  Clock::time_point first_byte_;

  // Its answer.
  std::shared_ptr<Exchange> exchange_;
  bool answer_complete_ = false;  // nothing follows what is in out_
  bool writing_ = false;
  bool flush_later_ = false;  // is on its way
  std::string out_;
  std::size_t written_ = 0;  // bytes of out_
};

}  // namespace kv8
