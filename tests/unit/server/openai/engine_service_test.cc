#include "server/engine_service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "events.h"

namespace kv8 {
namespace {

std::unique_ptr<Engine> NewEngine(int max_num_seqs = 2) {
  EngineOptions options;
  options.model = ModelDir();
  options.max_model_len = 256;
  options.max_num_seqs = max_num_seqs;
  options.threads = 1;
  return Engine::Create(options).value();
}

/// Keeps what it is told; lets a test wait for it.
class Recorder : public GenerationSink {
 public:
  void OnStart() override {
    Note([&] { started_ = true; });
  }
  TokenReply OnToken(std::size_t request, const TokenEvent& event) override {
    Note([&] { tokens_.emplace_back(request, event.token); });
    return tokens_.size() != stop_after_ ? TokenReply::kGoOn : TokenReply::kCancel;
  }
  void OnDone(Result<std::vector<Completion>> completions) override {
    Note([&] { done_.emplace(std::move(completions)); });
  }

  void WaitForTokens(std::size_t count) {
    Wait([&] { return tokens_.size() >= count || done_; });
  }
  Result<std::vector<Completion>>& WaitUntilDone() {
    Wait([&] { return done_.has_value(); });
    return *done_;
  }
  bool started() {
    const std::lock_guard lock(mutex_);
    return started_;
  }
  void StopAfter(std::size_t tokens) { stop_after_ = tokens; }

 private:
  template <class Change>
  void Note(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <class Condition>
  void Wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::vector<std::pair<std::size_t, TokenId>> tokens_;
  std::optional<Result<std::vector<Completion>>> done_;
  std::size_t stop_after_ = 0;
};

Request Long(std::int64_t max_tokens) {
  Request request;
  request.prompt = {10, 11, 12};
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

/// Waits for a snapshot without any request.
std::shared_ptr<const EngineSnapshot> IdleSnapshot(const EngineService& service) {
  for (;;) {
    auto snapshot = service.snapshot();
    const EngineStatistics& statistics = snapshot->statistics;
    if (statistics.submitted > 0 && statistics.running + statistics.waiting == 0) return snapshot;
    std::this_thread::yield();
  }
}

Code ErrorOf(Recorder& recorder) {
  const auto& done = recorder.WaitUntilDone();
  EXPECT_FALSE(done.ok());
  return done.error().code;
}

bool FailedForMemory(Recorder& recorder) {
  const auto& done = recorder.WaitUntilDone();
  return !done.ok() && IsOutOfMemory(done.error());
}

TEST(EngineService, GivesWhatTheEngineGives) {
  const auto expected = NewEngine()->Generate(Long(6)).value().choices[0].token_ids;
  EngineService service(NewEngine(), {});
  const auto recorder = std::make_shared<Recorder>();
  ASSERT_TRUE(service.Submit({Long(6), Long(3)}, recorder).ok());
  const auto& done = recorder->WaitUntilDone();
  ASSERT_TRUE(done.ok());
  EXPECT_TRUE(recorder->started());
  ASSERT_EQ(done->size(), 2U);
  EXPECT_EQ(done->at(0).choices[0].token_ids, expected);
  EXPECT_EQ(done->at(1).choices[0].token_ids.size(), 3U);
}

TEST(EngineService, MapsThePoolsForWhoWatches) {
  EngineService service(NewEngine(), {});
  EXPECT_FALSE(service.snapshot()->pool.has_value());
  service.WatchPool();  // the engine sleeps
  while (!service.snapshot()->pool) std::this_thread::yield();
  const auto snapshot = service.snapshot();
  EXPECT_EQ(snapshot->pool->size(), static_cast<std::size_t>(snapshot->kv_cache.pages));
  EXPECT_EQ(snapshot->pool->front().holders, 0);
}

TEST(EngineService, RefusedRequestsTakeTheirCompanionsAlong) {
  EngineService service(NewEngine(), {});
  const auto recorder = std::make_shared<Recorder>();
  Request bad = Long(3);
  bad.prompt = {-1};
  ASSERT_TRUE(service.Submit({Long(100), bad}, recorder).ok());
  EXPECT_EQ(ErrorOf(*recorder), Code::kInvalidArgument);
  EXPECT_FALSE(recorder->started());
  IdleSnapshot(service);
}

TEST(EngineService, TheLineHasAnEnd) {
  EngineService service(NewEngine(), {.max_requests = 2});
  const auto first = std::make_shared<Recorder>();
  const auto second = std::make_shared<Recorder>();
  const auto id = service.Submit({Long(200), Long(200)}, first);
  ASSERT_TRUE(id.ok());
  const auto refused = service.Submit({Long(1)}, second);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  service.Cancel(*id);
  EXPECT_EQ(ErrorOf(*first), Code::kCancelled);
  for (int i = 0; i < 3; ++i) {  // what is finished makes room
    const auto next = std::make_shared<Recorder>();
    while (!service.Submit({Long(1), Long(1)}, next).ok()) std::this_thread::yield();
    EXPECT_TRUE(next->WaitUntilDone().ok());
  }
}

TEST(EngineService, CancelsInLineAndWhileItRuns) {
  EngineService service(NewEngine(/*max_num_seqs=*/1), {});
  const auto runs = std::make_shared<Recorder>();
  const auto waits = std::make_shared<Recorder>();
  const auto running = service.Submit({Long(200)}, runs);
  const auto waiting = service.Submit({Long(200)}, waits);
  runs->WaitForTokens(2);
  service.Cancel(*waiting);
  EXPECT_EQ(ErrorOf(*waits), Code::kCancelled);
  service.Cancel(*running);
  EXPECT_EQ(ErrorOf(*runs), Code::kCancelled);
  service.Cancel(*running);  // nothing any more
  const auto snapshot = IdleSnapshot(service);
  EXPECT_EQ(snapshot->kv_cache.free_pages, snapshot->kv_cache.pages);
}

TEST(EngineService, ASinkCancelsItsWholeSubmission) {
  EngineService service(NewEngine(), {});
  const auto recorder = std::make_shared<Recorder>();
  recorder->StopAfter(3);
  ASSERT_TRUE(service.Submit({Long(200), Long(200)}, recorder).ok());
  EXPECT_EQ(ErrorOf(*recorder), Code::kCancelled);
}

/// A sink that finds no memory when it is told of a token, or of the end.
class PoorSink : public Recorder {
 public:
  explicit PoorSink(bool at_tokens) : at_tokens_(at_tokens) {}

  TokenReply OnToken(std::size_t request, const TokenEvent& event) override {
    if (at_tokens_) throw std::bad_alloc();
    return Recorder::OnToken(request, event);
  }
  void OnDone(Result<std::vector<Completion>> completions) override {
    if (completions.ok()) throw std::bad_alloc();
    Recorder::OnDone(std::move(completions));
  }

 private:
  const bool at_tokens_;
};

TEST(EngineService, ASinkWithoutMemoryFailsAlone) {
  EngineService service(NewEngine(), {.max_requests = 3});
  const auto other = std::make_shared<Recorder>();
  ASSERT_TRUE(service.Submit({Long(200)}, other).ok());
  for (const bool at_tokens : {false, true}) {
    const auto poor = std::make_shared<PoorSink>(at_tokens);
    // The line has room again soon after the last one's end.
    while (!service.Submit({Long(3), Long(5)}, poor).ok()) std::this_thread::yield();
    EXPECT_TRUE(FailedForMemory(*poor));
  }
  EXPECT_TRUE(other->WaitUntilDone().ok());
  EXPECT_FALSE(service.failed());
}

/// Where a constraint fails.
enum class Fault {
  kClone,         // no memory when the engine takes it,
  kPrepare,       // when its mask is looked for,
  kWorker,        // when that takes long, by another thread,
  kMask,          // when it is asked for,
  kAccept,        // and when a token is followed
  kUnknownThrow,  // what nobody expects in the midst of a step
};

class FaultyConstraint : public TokenConstraint {
 public:
  explicit FaultyConstraint(Fault fault) : fault_(fault) {}

  std::unique_ptr<TokenConstraint> Clone() const override {
    FailAt(Fault::kClone);
    return std::make_unique<FaultyConstraint>(fault_);
  }
  bool Prepare(std::int64_t work) override {
    FailAt(Fault::kPrepare);
    const bool is_first = std::exchange(work_, work) == 0;
    if (fault_ == Fault::kWorker && is_first) return false;
    FailAt(Fault::kWorker);
    return true;
  }
  void FillMask(std::span<std::uint64_t> mask) override {
    FailAt(Fault::kMask);
    if (fault_ == Fault::kUnknownThrow) throw std::runtime_error("unknown");
    std::fill(mask.begin(), mask.end(), ~std::uint64_t{0});
  }
  bool Accept(TokenId /*token*/) override {
    FailAt(Fault::kAccept);
    return true;
  }
  bool complete() const override { return true; }
  bool finished() const override { return false; }

 private:
  void FailAt(Fault fault) const {
    if (fault == fault_) throw std::bad_alloc();
  }

  const Fault fault_;
  std::int64_t work_ = 0;
};

Request Faulty(Fault fault) {
  Request request = Long(3);
  request.constraint = std::make_shared<FaultyConstraint>(fault);
  return request;
}

TEST(EngineService, ARequestThatIsNotTakenForLackOfMemoryFailsAlone) {
  EngineService service(NewEngine(), {});
  const auto other = std::make_shared<Recorder>();
  const auto poor = std::make_shared<Recorder>();
  ASSERT_TRUE(service.Submit({Long(200)}, other).ok());
  ASSERT_TRUE(service.Submit({Long(3), Faulty(Fault::kClone)}, poor).ok());
  EXPECT_TRUE(FailedForMemory(*poor));
  EXPECT_TRUE(other->WaitUntilDone().ok());
  EXPECT_FALSE(service.failed());
}

TEST(EngineService, Gram8_AConstraintWithoutMemoryFailsAlone) {
  for (const Fault fault : {Fault::kPrepare, Fault::kWorker, Fault::kMask, Fault::kAccept}) {
    EngineService service(NewEngine(), {});
    const auto other = std::make_shared<Recorder>();
    const auto poor = std::make_shared<Recorder>();
    ASSERT_TRUE(service.Submit({Long(60)}, other).ok());
    ASSERT_TRUE(service.Submit({Faulty(fault)}, poor).ok());
    EXPECT_TRUE(FailedForMemory(*poor)) << static_cast<int>(fault);
    EXPECT_TRUE(other->WaitUntilDone().ok());
    EXPECT_FALSE(service.failed());
    const auto snapshot = IdleSnapshot(service);
    EXPECT_EQ(snapshot->kv_cache.free_pages + snapshot->kv_cache.cached_pages,
              snapshot->kv_cache.pages);
  }
}

TEST(EngineService, AnEngineThatThrewInAStepIsNotUsedAgain) {
  EngineService service(NewEngine(), {});
  const auto other = std::make_shared<Recorder>();
  const auto poor = std::make_shared<Recorder>();
  ASSERT_TRUE(service.Submit({Long(200)}, other).ok());
  ASSERT_TRUE(service.Submit({Faulty(Fault::kUnknownThrow)}, poor).ok());
  EXPECT_TRUE(FailedForMemory(*poor));
  EXPECT_TRUE(FailedForMemory(*other));
  EXPECT_TRUE(service.failed());
  const auto late = std::make_shared<Recorder>();
  ASSERT_TRUE(service.Submit({Long(3)}, late).ok());
  EXPECT_TRUE(FailedForMemory(*late));
}

TEST(EngineService, StopEndsEverythingAndRefusesTheRest) {
  EngineService service(NewEngine(1), {});
  const auto runs = std::make_shared<Recorder>();
  const auto waits = std::make_shared<Recorder>();
  ASSERT_TRUE(service.Submit({Long(250)}, runs).ok());
  ASSERT_TRUE(service.Submit({Long(250)}, waits).ok());
  runs->WaitForTokens(1);
  service.Stop();
  EXPECT_EQ(ErrorOf(*runs), Code::kCancelled);
  EXPECT_EQ(ErrorOf(*waits), Code::kCancelled);
  const auto late = service.Submit({Long(5)}, std::make_shared<Recorder>());
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Code::kCancelled);
  service.Stop();  // nothing any more
}

TEST(EngineService, DestructionEndsEverything) {
  const auto runs = std::make_shared<Recorder>();
  const auto waits = std::make_shared<Recorder>();
  {
    EngineService service(NewEngine(1), {});
    ASSERT_TRUE(service.Submit({Long(250)}, runs).ok());
    ASSERT_TRUE(service.Submit({Long(250)}, waits).ok());
  }
  EXPECT_EQ(ErrorOf(*runs), Code::kCancelled);
  EXPECT_EQ(ErrorOf(*waits), Code::kCancelled);
}

}  // namespace
}  // namespace kv8
