// The engine's thread: takes requests from other threads and hands out what comes of them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/out_of_memory.h"
#include "kv8/engine.h"

namespace kv8 {

/// Names a submission; never reused.
enum class GenerationId : std::uint64_t {};

/// Receives what comes of one submission. All calls are made by the engine's thread, which waits
/// for them: they must be short.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;

  /// The engine has taken every request. Not called when it refuses one.
  virtual void OnStart() {}
  /// A token of the request with this index in the submission. kCancel ends the whole submission.
  virtual TokenReply OnToken(std::size_t request, const TokenEvent& event) = 0;
  /// The last call, and always made: one completion per request; or why the engine refused or
  /// failed, kCancelled, or OutOfMemoryError.
  /// If it throws, for lack of memory, it is called once more with OutOfMemoryError.
  virtual void OnDone(Result<std::vector<Completion>> completions) = 0;
};

/// What the engine's thread publishes about itself.
struct EngineSnapshot {
  EngineStatistics statistics;
  KvCacheInfo kv_cache;
  std::optional<std::vector<KvPageInfo>> pool;  // absent unless WatchPool was called lately
  std::chrono::steady_clock::time_point taken;
};

/// Owns the engine and the thread that runs it. The thread sleeps while there is nothing to do.
class EngineService {
 public:
  struct Options {
    std::size_t max_requests = 1024;  // taken and not finished; what is beyond is refused
    std::chrono::milliseconds snapshot_interval{100};  // least time between snapshots under load
    /// Called once, by the engine's thread, when Engine::failure says something. May be empty.
    std::function<void(const Error&)> on_failure;
  };

  EngineService(std::unique_ptr<Engine> engine, Options options);
  ~EngineService();

  /// Puts requests in line, all or none. Errors: kResourceExhausted when the line is full;
  /// kCancelled after Stop. What the engine has against them goes to the sink.
  Result<GenerationId> Submit(std::vector<Request> requests, std::shared_ptr<GenerationSink> sink);
  /// Ends a submission wherever it is; nothing for one that is finished.
  void Cancel(GenerationId id);
  /// Refuses new requests from now on, cancels those taken, and waits until no sink is called any
  /// more. What sinks use must live until then.
  void Stop();

  /// At most snapshot_interval and one step old.
  std::shared_ptr<const EngineSnapshot> snapshot() const;
  /// Puts the map of the pools into the snapshots of the next seconds: it costs time for every
  /// block, which is wasted when nobody looks. The next snapshot with it comes soon, even when the
  /// engine is idle.
  void WatchPool();
  /// Whether the engine broke down for lack of memory: it takes nothing more.
  bool failed() const { return failed_; }
  const ModelInfo& model() const { return engine_->model(); }
  const MemoryPlan& memory() const { return engine_->memory(); }

 private:
  struct Submission;
  struct Commands {
    std::vector<std::unique_ptr<Submission>> submissions;
    std::vector<GenerationId> cancellations;
  };

  void Run();
  Commands WaitForCommands();
  template <class Work>
  void Guard(Work work);
  void Take(std::unique_ptr<Submission> submission);
  void Start(std::unique_ptr<Submission> submission);
  Result<RequestId> SubmitOne(Request request, TokenCallback on_token, DoneCallback on_done);
  void CancelNow(GenerationId id);
  void Complete(GenerationId id, std::size_t request, Completion completion);
  void Finish(GenerationId id, Result<std::vector<Completion>> result);
  void TellFailure();
  void Publish(bool now);

  const Options options_;
  const std::unique_ptr<Engine> engine_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;  // of the engine's thread
  Commands commands_;
  std::uint64_t next_id_ = 1;
  std::size_t requests_ = 0;  // taken and not finished
  bool stopping_ = false;
  bool pool_missing_ = false;  // somebody watches, and the last snapshot is without the map
  std::chrono::steady_clock::time_point pool_watched_until_;
  std::shared_ptr<const EngineSnapshot> snapshot_;

  std::atomic<bool> failed_{false};

  // Of the engine's thread alone.
  std::map<GenerationId, std::unique_ptr<Submission>> running_;
  std::chrono::steady_clock::time_point published_;
  bool failure_told_ = false;

  std::thread thread_;
};

}  // namespace kv8
