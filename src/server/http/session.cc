#include "server/http/session.h"

#include <fmt/format.h>

#include <exception>
#include <random>
#include <string_view>
#include <utility>

namespace kv8 {
namespace {

constexpr std::size_t kReadSize = 4 << 10;       // heads; also what an idle connection keeps
constexpr std::size_t kBodyReadSize = 64 << 10;  // bodies
constexpr std::size_t kReadAhead = 16 << 10;     // pipelined requests that wait in memory

/// How long a client may take to read the last answer after the server has finished: closing at
/// once, with bytes of its unread, would reset the connection and could destroy the answer.
constexpr std::chrono::milliseconds kLingerTime{2'000};

std::string NewRequestId() {
  static const std::uint32_t kBoot = std::random_device()();
  static std::atomic<std::uint64_t> count{0};
  return fmt::format("req-{:08x}-{}", kBoot, count.fetch_add(1, std::memory_order_relaxed));
}

double Seconds(Session::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Session::Session(std::unique_ptr<Stream> stream, std::shared_ptr<SessionContext> context,
                 std::weak_ptr<IoLoop> loop, std::function<void(Session&)> on_closed)
    : stream_(std::move(stream)),
      context_(std::move(context)),
      loop_(std::move(loop)),
      on_closed_(std::move(on_closed)),
      peer_(stream_->peer()) {}

void Session::SetDeadline(std::chrono::milliseconds from_now) {
  deadline_ = Clock::now() + from_now;
}

/// Runs a step of the session. Memory may run out in any of them: then the connection fails, not
/// the server.
template <class Step>
void Session::Guard(Step step) {
  try {
    step();
  } catch (const std::exception&) {
    OnException();
  }
}

void Session::OnException() {
  try {
    if (phase_ == Phase::kHead || phase_ == Phase::kBody) return Refuse({.error = OutOfMemory()});
  } catch (const std::exception&) {
    // There is not even memory to say so.
  }
  Close();
}

void Session::Start() {
  SetDeadline(context_->limits.header_timeout);
  stream_->Handshake([self = shared_from_this()](bool ok, std::size_t) {
    self->Guard([&] { self->OnHandshake(ok); });
  });
}

void Session::OnHandshake(bool ok) {
  if (!ok) return Close();
  if (phase_ != Phase::kHandshake) return;
  reader_.emplace(context_->limits);
  phase_ = Phase::kIdle;
  Read();
}

void Session::Sweep(Clock::time_point now) {
  Guard([&] {
    if (now >= deadline_) return OnDeadline();
    Flush();  // a wake may have been lost for lack of memory
  });
}

void Session::OnDeadline() {
  if (phase_ == Phase::kHead || phase_ == Phase::kBody) {
    ++context_->statistics.cut_off;
    return Refuse({.error = {.status = 408, .message = "The request did not come in time."}});
  }
  if (phase_ == Phase::kAnswer) {
    ++context_->statistics.cut_off;
    LogAnswer(false);
  }
  Close();
}

void Session::FinishSoon() {
  const bool under_way = phase_ == Phase::kBody || phase_ == Phase::kAnswer;
  if (!under_way && phase_ != Phase::kLinger) Close();
}

void Session::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  const std::shared_ptr<Session> self = shared_from_this();
  stream_->Close();
  on_closed_(*this);
  if (exchange_) exchange_->Close();
}

// Reading.

void Session::Read() {
  const bool ahead = phase_ == Phase::kAnswer && in_.size() >= kReadAhead;
  if (reading_ || ahead || phase_ == Phase::kClosed) return;
  if (peer_finished_) {
    if (phase_ != Phase::kAnswer) Close();
    return;
  }
  reading_ = true;
  const std::size_t size = phase_ == Phase::kBody ? kBodyReadSize : kReadSize;
  if (chunk_.size() != size) chunk_ = std::vector<char>(size);  // gives the larger one back
  stream_->ReadSome(chunk_.data(), chunk_.size(),
                    [self = shared_from_this()](bool ok, std::size_t bytes) {
                      self->Guard([&] { self->OnRead(ok, bytes); });
                    });
}

void Session::OnRead(bool ok, std::size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (!ok) return OnPeerFinished();
  if (phase_ != Phase::kLinger) in_.append(chunk_.data(), bytes);
  if (phase_ == Phase::kIdle) {
    phase_ = Phase::kHead;
    began_ = Clock::now();
    SetDeadline(context_->limits.header_timeout);
  }
  Parse();
  Read();
}

/// A client that sends no more may have gone, or may only have closed its half. An answer that is
/// ready is sent in any case; work for one that is not ends here.
void Session::OnPeerFinished() {
  peer_finished_ = true;
  if (phase_ == Phase::kAnswer && exchange_->complete()) return;
  if (phase_ == Phase::kAnswer) {
    ++context_->statistics.hung_up;
    LogAnswer(false);
  }
  Close();
}

void Session::Parse() {
  while (phase_ == Phase::kHead || phase_ == Phase::kBody) {
    in_.erase(0, reader_->Feed(in_));
    if (phase_ == Phase::kBody && !ShareGrows()) return Refuse({.error = OutOfMemory()});
    switch (reader_->state()) {
      case RequestReader::State::kHead:
      case RequestReader::State::kBody:
        return;
      case RequestReader::State::kHeadDone:
        Admit();
        break;
      case RequestReader::State::kDone:
        Dispatch();
        return;
      case RequestReader::State::kFailed:
        Refuse({.error = reader_->error()});
        return;
    }
  }
}

bool Session::ShareGrows() {
  if (!body_share_) body_share_ = std::make_shared<BodyMemory::Share>(context_->bodies);
  return body_share_->GrowTo(reader_->body_bytes());
}

/// Decides from the head alone whether the body is worth reading.
void Session::Admit() {
  phase_ = Phase::kBody;
  SetDeadline(context_->limits.body_timeout);
  HttpRequest& request = reader_->request();
  const Router::Match match = context_->router.Find(request.method, request.path);
  handler_ = match.handler;
  allowed_methods_ = match.allowed;
  refusal_ = CheckAdmission(context_->rules, match, reader_->has_body(), request);
  if (refusal_ && reader_->has_body()) return Refuse(*refusal_);
  if (reader_->wants_continue()) {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    WriteOut();
  }
}

// Answering.

void Session::BeginAnswer() {
  const bool whole = reader_->state() == RequestReader::State::kDone;
  HttpRequest& request = reader_->request();
  ++context_->statistics.requests;
  phase_ = Phase::kAnswer;
  ClearDeadline();
  if (writing_) SetDeadline(context_->limits.write_timeout);  // 100 Continue, still on its way
  if (in_.empty()) in_ = {};
  if (request.id.empty()) request.id = NewRequestId();
  request_id_ = request.id;
  method_ = request.method;
  path_ = request.path;
  first_byte_ = {};
  answer_complete_ = false;
  ResponseFrame frame{.request_id = request_id_,
                      .cors_origin = context_->rules.cors_origin,
                      .head_only = method_ == "HEAD",
                      .http_1_0 = reader_->http_1_0(),
                      .keep_alive = whole && reader_->keep_alive() && !context_->shutting_down};
  const auto wake = [loop = loop_, weak = weak_from_this()] {
    const std::shared_ptr<IoLoop> io = loop.lock();
    if (!io) return;
    io->Post([weak] {
      const std::shared_ptr<Session> self = weak.lock();
      if (self) self->Guard([&] { self->Flush(); });
    });
  };
  exchange_ = std::make_shared<Exchange>(std::move(frame), context_->limits.stream_buffer,
                                         context_->limits.stream_gap, wake);
}

void Session::Refuse(const Refusal& refusal) {
  ++context_->statistics.refused;
  BeginAnswer();
  if (!exchange_->summary().keep_alive) {  // nothing follows, and what came is of no use
    reader_.reset();
    body_share_.reset();
    in_ = {};
  }
  ExchangeResponder responder(exchange_);
  SendError(responder, refusal.error, refusal.headers);
}

void Session::Dispatch() {
  if (refusal_) return Refuse(*refusal_);
  BeginAnswer();
  if (method_ == "OPTIONS") return AnswerOptions();
  CallHandler();
}

void Session::AnswerOptions() {
  const std::string allowed = allowed_methods_.empty() ? "OPTIONS" : allowed_methods_;
  HttpHeaders headers = {{"Allow", allowed}};
  if (!context_->rules.cors_origin.empty()) {
    headers.emplace_back("Access-Control-Allow-Methods", allowed);
    headers.emplace_back("Access-Control-Allow-Headers",
                         "Authorization, Content-Type, X-Request-Id");
    headers.emplace_back("Access-Control-Max-Age", "600");
  }
  ExchangeResponder(exchange_).Send(204, "", "", std::move(headers));
}

void Session::CallHandler() {
  reader_->request().body_share = std::move(body_share_);
  const auto responder = std::make_shared<ExchangeResponder>(exchange_, reader_->request().client);
  try {
    (*handler_)(std::move(reader_->request()), responder);
  } catch (const std::exception& problem) {
    // A handler's library may throw, for lack of memory if for nothing else; one request fails.
    context_->log->Write(LogLevel::kError, "handler failed",
                         {{"id", request_id_}, {"what", std::string_view(problem.what())}});
    SendException(*responder, problem);
  }
  if (!exchange_->complete()) FlushLater();  // ends the pause that a stream begins with
}

void Session::Flush() {
  if (phase_ != Phase::kAnswer) return;
  if (exchange_->overflowed()) {
    ++context_->statistics.cut_off;
    LogAnswer(false);
    return Close();
  }
  if (writing_) return;
  if (answer_complete_) return FinishAnswer();
  Exchange::Output output = exchange_->Take();
  if (output.broken) {
    LogAnswer(false);
    return Close();
  }
  answer_complete_ = output.complete;
  if (output.paced) FlushLater();
  out_ = std::move(output.bytes);
  if (!out_.empty()) return WriteOut();
  if (answer_complete_) FinishAnswer();
}

/// Comes back at the end of a stream's pause.
void Session::FlushLater() {
  const std::shared_ptr<IoLoop> io = loop_.lock();
  if (!io || flush_later_) return;
  flush_later_ = true;
  io->PostLater([self = shared_from_this()] {
    self->flush_later_ = false;
    if (self->exchange_) self->exchange_->EndPause();
    self->Guard([&] { self->Flush(); });
  });
}

void Session::WriteOut() {
  writing_ = true;
  written_ = 0;
  if (phase_ == Phase::kAnswer && first_byte_ == Clock::time_point{}) first_byte_ = Clock::now();
  WriteRest();
}

void Session::WriteRest() {
  // The deadline of a body under way is the body's.
  if (phase_ == Phase::kAnswer) SetDeadline(context_->limits.write_timeout);
  const auto on_written = [self = shared_from_this()](bool ok, std::size_t bytes) {
    self->Guard([&] { self->OnWritten(ok, bytes); });
  };
  stream_->WriteSome(out_.data() + written_, out_.size() - written_, on_written);
}

void Session::OnWritten(bool ok, std::size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (!ok) {
    if (phase_ == Phase::kAnswer) {
      ++context_->statistics.hung_up;
      LogAnswer(false);
    }
    return Close();
  }
  written_ += bytes;
  if (written_ < out_.size()) return WriteRest();
  writing_ = false;
  out_.clear();
  if (phase_ != Phase::kAnswer) return;
  ClearDeadline();
  Flush();
}

void Session::FinishAnswer() {
  LogAnswer(true);
  const bool keep_alive = exchange_->summary().keep_alive;
  exchange_.reset();
  refusal_.reset();
  if (!keep_alive || context_->shutting_down) return Linger();
  reader_.emplace(context_->limits);
  if (in_.empty()) {
    phase_ = Phase::kIdle;
    SetDeadline(context_->limits.idle_timeout);
  } else {
    phase_ = Phase::kHead;
    began_ = Clock::now();
    SetDeadline(context_->limits.header_timeout);
    Parse();
  }
  Read();
}

void Session::Linger() {
  phase_ = Phase::kLinger;
  in_ = {};
  SetDeadline(kLingerTime);
  stream_->FinishSending([self = shared_from_this()](bool, std::size_t) {});
  Read();
}

void Session::LogAnswer(bool complete) const {
  if (!context_->log->Wants(LogLevel::kInfo)) return;
  const Clock::time_point now = Clock::now();
  const Exchange::Summary summary = exchange_->summary();
  const bool began = first_byte_ != Clock::time_point{};
  std::vector<LogField> fields = {{"id", request_id_},
                                  {"peer", peer_},
                                  {"method", method_},
                                  {"path", path_},
                                  {"status", std::int64_t{summary.status}},
                                  {"bytes", static_cast<std::int64_t>(summary.body_bytes)},
                                  {"first_byte_s", began ? Seconds(first_byte_ - began_) : 0.0},
                                  {"seconds", Seconds(now - began_)}};
  for (const auto& [name, text] : summary.notes) fields.push_back({name, std::string_view(text)});
  context_->log->Write(LogLevel::kInfo, complete ? "answered" : "broken off", fields);
}

}  // namespace kv8
