#include "server/engine_service.h"

#include <fmt/format.h>

#include <exception>
#include <string_view>
#include <utility>

namespace kv8 {
namespace {

/// Longer than any watcher waits between two looks.
constexpr std::chrono::seconds kPoolWatch(3);

/// Tells a sink the end; that memory ran out when there is none to tell more.
void TellDone(GenerationSink& sink, Result<std::vector<Completion>> result) {
  try {
    return sink.OnDone(std::move(result));
  } catch (const std::exception&) {
    // What it was about to send has gone, and its memory with it.
  }
  try {
    sink.OnDone(OutOfMemoryError());
  } catch (const std::exception&) {
    // Its own end tells the client.
  }
}

}  // namespace

struct EngineService::Submission {
  GenerationId id{};
  std::vector<Request> requests;
  std::shared_ptr<GenerationSink> sink;

  // While it runs.
  std::vector<RequestId> ids;
  std::vector<Completion> completions;
  std::size_t unfinished = 0;
  bool cancelled = false;
  bool exhausted = false;  // its sink found no memory

  /// Tells the sink of a token. What it throws must not pass through the engine.
  TokenReply Tell(std::size_t request, const TokenEvent& event) {
    try {
      return sink->OnToken(request, event);
    } catch (const std::exception&) {
      exhausted = true;
      return TokenReply::kCancel;
    }
  }
};

EngineService::EngineService(std::unique_ptr<Engine> engine, Options options)
    : options_(std::move(options)), engine_(std::move(engine)) {
  Publish(/*now=*/true);
  thread_ = std::thread([this] { Run(); });
}

EngineService::~EngineService() {
  Stop();
}

Result<GenerationId> EngineService::Submit(std::vector<Request> requests,
                                           std::shared_ptr<GenerationSink> sink) {
  auto submission = std::make_unique<Submission>();
  const std::size_t count = requests.size();
  submission->requests = std::move(requests);
  submission->sink = std::move(sink);
  GenerationId id{};
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      return Error{Code::kCancelled, "the server is shutting down", "", "use another server"};
    }
    if (count > options_.max_requests - requests_) {
      return Error{Code::kResourceExhausted,
                   fmt::format("{} requests are waiting or running, and {} more exceed the limit "
                               "of {}",
                               requests_, count, options_.max_requests),
                   "", "try again later"};
    }
    id = submission->id = GenerationId{next_id_++};
    commands_.submissions.push_back(std::move(submission));
    requests_ += count;
  }
  wake_.notify_one();
  return id;
}

void EngineService::Cancel(GenerationId id) {
  {
    const std::lock_guard lock(mutex_);
    commands_.cancellations.push_back(id);
  }
  wake_.notify_one();
}

void EngineService::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const EngineSnapshot> EngineService::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

void EngineService::WatchPool() {
  {
    const std::lock_guard lock(mutex_);
    pool_watched_until_ = std::chrono::steady_clock::now() + kPoolWatch;
    if (snapshot_->pool) return;
    pool_missing_ = true;
  }
  wake_.notify_one();
}

void EngineService::Run() {
  for (;;) {
    Commands commands = WaitForCommands();
    for (auto& submission : commands.submissions) Take(std::move(submission));
    Guard([&] {
      for (const GenerationId id : commands.cancellations) CancelNow(id);
    });
    bool stopping = false;
    {
      const std::lock_guard lock(mutex_);
      stopping = stopping_ && commands_.submissions.empty();
    }
    if (stopping) break;
    if (!running_.empty()) Guard([this] { engine_->Step(); });
    TellFailure();
    Publish(/*now=*/running_.empty());
  }
  Guard([this] {
    while (!running_.empty()) CancelNow(running_.begin()->first);
  });
  Publish(/*now=*/true);
}

/// Runs what changes the engine. What throws in its midst leaves an engine that may be half in the
/// next state: it is not used again, since what it computed could be wrong.
template <class Work>
void EngineService::Guard(Work work) {
  try {
    work();
    return;
  } catch (const std::exception&) {
    failed_ = true;
  }
  try {
    while (!running_.empty()) Finish(running_.begin()->first, OutOfMemoryError());
  } catch (const std::exception&) {
    running_.clear();  // the end of their sinks tells the clients
  }
}

/// Sleeps unless there is something to run or to do.
EngineService::Commands EngineService::WaitForCommands() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] {
    return stopping_ || pool_missing_ || !running_.empty() || !commands_.submissions.empty() ||
           !commands_.cancellations.empty();
  });
  pool_missing_ = false;
  return std::exchange(commands_, {});
}

/// Starts a submission, or ends it for lack of memory.
void EngineService::Take(std::unique_ptr<Submission> taken) {
  const GenerationId id = taken->id;
  const std::size_t count = taken->requests.size();
  try {
    Start(std::move(taken));
  } catch (const std::exception&) {
    if (running_.contains(id)) return Finish(id, OutOfMemoryError());
    const std::lock_guard lock(mutex_);
    requests_ -= count;  // there was not even memory to keep it, and its sink has gone
  }
}

void EngineService::Start(std::unique_ptr<Submission> taken) {
  Submission& submission = *taken;
  const GenerationId id = submission.id;
  const std::size_t count = submission.requests.size();
  submission.completions.resize(count);
  submission.unfinished = count;
  running_.emplace(id, std::move(taken));
  for (std::size_t i = 0; i < count; ++i) {
    const auto on_token = [&submission, i](const TokenEvent& event) {
      if (submission.cancelled) return TokenReply::kCancel;
      const TokenReply reply = submission.Tell(i, event);
      submission.cancelled = reply == TokenReply::kCancel;
      return reply;
    };
    const auto on_done = [this, id, i](Completion completion) {
      Complete(id, i, std::move(completion));
    };
    auto submitted = SubmitOne(std::move(submission.requests[i]), on_token, on_done);
    if (!submitted.ok()) return Finish(id, std::move(submitted).error());
    submission.ids.push_back(*submitted);
  }
  submission.sink->OnStart();
}

Result<RequestId> EngineService::SubmitOne(Request request, TokenCallback on_token,
                                           DoneCallback on_done) {
  if (failed_) return OutOfMemoryError();
  try {
    return engine_->Submit(std::move(request), std::move(on_token), std::move(on_done));
  } catch (const std::exception&) {
    return OutOfMemoryError();  // the engine has not taken it
  }
}

void EngineService::CancelNow(GenerationId id) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  found->second->cancelled = true;
  Finish(id, Error{Code::kCancelled, "the request was cancelled", "", ""});
}

/// One of the submission's requests is over.
void EngineService::Complete(GenerationId id, std::size_t request, Completion completion) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;  // the submission ended before all of its requests had
  Submission& submission = *found->second;
  if (completion.error) return Finish(id, std::move(*completion.error));
  if (submission.exhausted) return Finish(id, OutOfMemoryError());
  if (submission.cancelled) return CancelNow(id);
  submission.completions[request] = std::move(completion);
  if (--submission.unfinished == 0) Finish(id, std::move(submission.completions));
}

/// Ends the submission and whatever of it still runs, and tells its sink.
void EngineService::Finish(GenerationId id, Result<std::vector<Completion>> result) {
  const auto node = running_.extract(id);
  Submission& submission = *node.mapped();
  submission.cancelled = true;  // of its requests' last tokens nobody hears
  if (!failed_) {
    for (const RequestId running : submission.ids) engine_->Cancel(running);
  }
  TellDone(*submission.sink, std::move(result));
  const std::lock_guard lock(mutex_);
  requests_ -= submission.requests.size();
}

void EngineService::TellFailure() {
  if (failure_told_ || !engine_->failure() || !options_.on_failure) return;
  failure_told_ = true;
  options_.on_failure(*engine_->failure());
}

void EngineService::Publish(bool now) {
  const auto time = std::chrono::steady_clock::now();
  if (failed_) return;
  if (!now && time - published_ < options_.snapshot_interval) return;
  published_ = time;
  bool watched = false;
  {
    const std::lock_guard lock(mutex_);
    watched = time < pool_watched_until_;
  }
  try {
    auto snapshot = std::make_shared<EngineSnapshot>(EngineSnapshot{
        .statistics = engine_->statistics(), .kv_cache = engine_->kv_cache(), .taken = time});
    if (watched) snapshot->pool = engine_->pool_map();
    const std::lock_guard lock(mutex_);
    snapshot_ = std::move(snapshot);
  } catch (const std::exception&) {
    // No memory: the last snapshot stays until the next.
  }
}

}  // namespace kv8
