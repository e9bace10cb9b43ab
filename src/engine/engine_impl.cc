#include "engine/engine_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "engine/request_check.h"
#include "engine/request_flow.h"

namespace kv8 {
namespace {

/// Collects log-probabilities of the prompt while it is computed.
PromptRowSink PromptLogprobs(RequestRecord& record, int top) {
  return [&record, top](std::int64_t position, std::span<const float> logits) {
    const auto next = static_cast<std::size_t>(position) + 1;
    if (next == record.request.prompt.size()) return;
    record.completion.prompt_logprobs.push_back(
        LogprobsOf(logits, record.request.prompt[next], top));
  };
}

/// Adds one row to a score.
void ScoreRow(std::span<const TokenId> ids, std::int64_t position, std::span<const float> logits,
              int top, Score& score) {
  const TokenId best = ArgMaxToken(logits);
  score.argmax.push_back(best);
  const auto next = static_cast<std::size_t>(position) + 1;
  if (next < ids.size()) {
    score.nll.push_back(static_cast<float>(NegativeLogLikelihood(logits, ids[next])));
  }
  if (top > 0) score.top_logprobs.push_back(LogprobsOf(logits, best, top).top);
}

Error NotFinite(const Sequence& sequence, const std::filesystem::path& dir) {
  return Error{
      Code::kCorrupt,
      fmt::format("the model computed logits that are not finite by position {}", sequence.size()),
      dir.string(), "look for NaN in the weights: kv8 inspect DIR --check-finite"};
}

/// Notes a sequence whose logits are not finite.
void CheckLogits(Sequence& sequence, ConstMatrix logits, std::span<const TokenId> tokens) {
  if (std::ranges::find(tokens, kNoToken) != tokens.end()) sequence.finite = false;
  for (std::int64_t row = 0; row < logits.rows && sequence.finite; ++row) {
    sequence.finite = AllFinite(logits.row(row));
  }
}

}  // namespace

Engine::Impl::Impl(const EngineOptions& options, const EngineSetup& setup,
                   std::unique_ptr<const LoadedModel> model, std::unique_ptr<Executor> executor,
                   std::shared_ptr<const Tokenizer> tokenizer, std::unique_ptr<HostTier> tier)
    : dir_(options.model),
      loaded_(std::move(model)),
      runner_(*loaded_, setup.executor.cache, setup.preempted_bytes, std::move(executor)),
      tier_(std::move(tier)),
      scheduler_(setup.scheduler, setup.executor.cache.pages, tier_.get()),
      tokenizer_(std::move(tokenizer)) {
  const ModelSpec& config = loaded_->model().spec;
  info_ = {.vocab = config.vocab,
           .max_model_len = setup.max_model_len,
           .stop_ids = loaded_->checkpoint().stop_ids(),
           .generation = loaded_->checkpoint().generation(),
           .has_draft_head = config.draft.has_value()};
  memory_ =
      PlanMemory(setup, loaded_->model().spec, runner_.executor().memory());  // what was taken
  limits_ = {.vocab = info_.vocab,
             .choosable = setup.executor.tokens,
             .max_model_len = info_.max_model_len,
             .checkpoint_len = config.max_positions,
             .max_choices = options.max_num_seqs,
             .speculative_tokens = options.speculative_tokens};
  if (options.speculative_tokens > 0) speculator_.emplace(runner_, options.draft_sampling);
}

/// What the pools and host memory hold goes to disk, so that the next engine goes on from there.
Engine::Impl::~Impl() {
  if (!tier_ || !tier_->has_store() || failure_ || runner_.executor().failure()) return;
  try {
    scheduler_.GiveUpAll();
    WriteBack();
    tier_->StoreAll();
  } catch (const std::bad_alloc&) {
    // What could not be kept is computed again.
  }
}

Result<const Tokenizer*> Engine::Impl::FindTokenizer() const {
  if (tokenizer_) return tokenizer_.get();
  return Error{Code::kNotFound, "the checkpoint has no tokenizer.json, which text needs",
               (dir_ / "tokenizer.json").string(), "restore the file from the checkpoint's source"};
}

Result<RequestId> Engine::Impl::Submit(Request request, TokenCallback on_token,
                                       DoneCallback on_done) {
  if (failure_) return *failure_;
  KV8_RETURN_IF_ERROR(CheckRequest(request, limits_));
  const Tokenizer* tokenizer = nullptr;
  if (request.text || !request.stop.empty()) {
    KV8_ASSIGN_OR_RETURN(tokenizer, FindTokenizer());
  }
  statistics_.OnSubmit();
  const RequestId id{next_id_++};
  auto record = MakeRecord(id, std::move(request), next_arrival_, limits_, tokenizer);
  Constrain(*record, info_.stop_ids, masks_);
  record->on_token = std::move(on_token);
  record->on_done = std::move(on_done);
  if (const auto top = record->request.prompt_logprobs) {
    record->sequences.front()->prompt_rows = PromptLogprobs(*record, *top);
  }
  Enqueue(std::move(record));
  return id;
}

void Engine::Impl::Enqueue(std::unique_ptr<RequestRecord> record) {
  next_arrival_ += record->sequences.size();
  // Stored before it is scheduled: if storing fails, the scheduler must not hold a pointer to it.
  RequestRecord& kept = *requests_.emplace(record->completion.id, std::move(record)).first->second;
  for (const auto& sequence : kept.sequences) scheduler_.Add(*sequence);
}

bool Engine::Impl::Step() {
  StepClock clock{.begin = Clock::now()};
  scheduler_.Schedule(plan_);
  MarkStarted(plan_);
  clock.scheduled = Clock::now();
  WriteBack();
  runner_.Run(plan_);
  statistics_.OnPlan(plan_);
  clock.ran = Clock::now();
  LookForFailure();
  if (!FailAllIfFailed()) Commit(plan_);
  clock.committed = Clock::now();
  if (speculator_) speculator_->Propose(plan_);
  clock.drafted = Clock::now();
  if (!FailAllIfFailed()) {
    scheduler_.CachePages(plan_, keeps_, dropped_);
    WriteBack();
    scheduler_.GiveUp(runner_.KeepSnapshots(plan_, keeps_, dropped_));
  }
  DeliverFinished();
  if (plan_.items.empty() && !scheduler_.idle()) masks_.Wait();
  clock.end = Clock::now();
  statistics_.OnStep(clock);
  return !scheduler_.idle();
}

/// Keeps in the tier what the scheduler gave up, while pools and snapshots still hold it.
void Engine::Impl::WriteBack() {
  if (!tier_) return;
  const std::vector<TierWrite> writes = scheduler_.TakeWrites();
  for (const auto& unit : runner_.WriteBack(writes)) tier_->Forget(*unit);
}

void Engine::Impl::MarkStarted(const StepPlan& plan) {
  for (const PlanItem& item : plan.items) {
    RequestRecord& record = *item.sequence->request;
    if (!record.started) record.started = Clock::now();
  }
  for (const PlanHit& hit : plan.hits) {
    if (hit.sequence->choice > 0) continue;  // usage is about the prompt, once
    hit.sequence->request->completion.usage.cached_tokens = hit.sequence->computed;
  }
}

void Engine::Impl::Commit(const StepPlan& plan) {
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const PlanItem& item = plan.items[i];
    if (!item.sequence->running()) continue;  // its request was cancelled in this step
    if (item.yields_token()) {
      CheckLogits(*item.sequence, runner_.Logits(i), runner_.Tokens(i));
    }
    if (!item.sequence->finite) {
      Fail(*item.sequence->request, NotFinite(*item.sequence, dir_));
      continue;
    }
    if (item.phase == Phase::kPrefill) CommitPrompt(item);
    if (item.yields_token() && item.sequence->running()) {
      CommitTokens(item, runner_.Logits(i), runner_.Tokens(i));
    }
  }
}

void Engine::Impl::CommitPrompt(const PlanItem& item) {
  Sequence& sequence = *item.sequence;
  RequestRecord& record = *sequence.request;
  sequence.computed += item.rows;
  if (!item.yields_token()) return;
  sequence.stage = Stage::kDecode;
  if (!record.first_token) record.first_token = Clock::now();
  if (sequence.size() == sequence.max_total) {  // no output was asked for
    Finish(sequence, FinishReason::kLength);
  }
}

/// What follows from one row of logits; nullopt when the sequence's constraint leaves nothing.
std::optional<NewToken> Engine::Impl::NextToken(Sequence& sequence, std::size_t row,
                                                std::span<float> logits, bool& accepted) {
  const Request& request = sequence.request->request;
  // Log-probabilities are the model's own: taken before anything changes the logits.
  std::vector<float> raw;
  if (request.logprobs) raw.assign(logits.begin(), logits.end());
  const std::span<float> choosable = Choosable(sequence, logits);
  if (sequence.constraint && !sequence.constraint->Mask(choosable)) return std::nullopt;
  Sampler::Adjust(request.sampling, sequence.history, logits);
  const Verdict verdict = Verify(sampler_, sequence, row, choosable);
  NewToken chosen{verdict.token, {}};
  if (request.logprobs) chosen.logprobs = LogprobsOf(raw, verdict.token, *request.logprobs);
  accepted = verdict.accepted;
  return chosen;
}

/// Turns an item's rows of logits, or what was chosen by those, into tokens, as long as the next
/// row's draft is the token chosen.
void Engine::Impl::CommitTokens(const PlanItem& item, Matrix logits,
                                std::span<const TokenId> tokens) {
  Sequence& sequence = *item.sequence;
  RequestRecord& record = *sequence.request;
  const std::int64_t drafted = sequence.draft_count();
  std::int64_t accepted = 0, row = 0;
  FinishReason reason = FinishReason::kNone;
  for (; reason == FinishReason::kNone && row <= accepted; ++row) {
    // The first row's mask is ready; a later row is computed again when its mask takes long.
    if (row > 0 && sequence.constraint && !sequence.constraint->PrepareNow()) break;
    const auto at = static_cast<std::size_t>(row);
    bool is_draft = false;
    std::optional<NewToken> chosen;
    if (tokens.empty()) {
      chosen = NextToken(sequence, at, logits.row(row), is_draft);
      if (!chosen) return Fail(record, NotFollowed(sequence));
    } else {
      const Verdict verdict = VerifyToken(sequence, at, tokens[at]);
      chosen = NewToken{verdict.token, {}};
      is_draft = verdict.accepted;
    }
    if (item.phase == Phase::kDecode) ++sequence.computed;
    if (is_draft) ++accepted;
    statistics_.OnToken();
    reason = AppendToken(sequence, std::move(*chosen), info_.stop_ids);
  }
  statistics_.OnOutput(sequence);
  if (drafted > 0) {
    statistics_.OnVerify(drafted, accepted, record.completion.speculation);
    sequence.drafts.clear();
  }
  if (reason == FinishReason::kCancelled || reason == FinishReason::kError) {
    return FinishAll(record, reason);
  }
  if (reason != FinishReason::kNone) return Finish(sequence, reason);
  if (item.phase == Phase::kDecode) runner_.Rollback(item, row);
  if (!sequence.constraint) return;
  sequence.constraint->ForgetDrafts();
  sequence.constraint->Prepare(masks_);
}

void Engine::Impl::Finish(Sequence& sequence, FinishReason reason) {
  scheduler_.Remove(sequence);
  runner_.Forget(sequence);
  statistics_.OnChoice(reason);
  if (EndSequence(sequence, reason)) finished_.push_back(sequence.request->completion.id);
}

void Engine::Impl::FinishAll(RequestRecord& record, FinishReason reason) {
  for (const auto& sequence : record.sequences) {
    if (sequence->stage != Stage::kFinished) Finish(*sequence, reason);
  }
}

void Engine::Impl::Fail(RequestRecord& record, Error error) {
  record.completion.error = std::move(error);
  FinishAll(record, FinishReason::kError);
}

/// Once a step, before its results are delivered or kept. A check of a shard takes a microsecond.
void Engine::Impl::LookForFailure() {
  // What the executor could not read, it knows by tensor.
  if (failure_ || runner_.executor().failure()) return;
  if (auto weights = loaded_->checkpoint().CheckUnchanged(); !weights.ok()) {
    failure_ = std::move(weights).error();
  }
}

/// Ends every request with what failed for all of them, if something did: no result can be trusted,
/// and none will come.
bool Engine::Impl::FailAllIfFailed() {
  if (!failure_) failure_ = runner_.executor().failure();
  if (!failure_) return false;
  for (const auto& [id, record] : requests_) {
    if (record->unfinished > 0) Fail(*record, *failure_);
  }
  return true;
}

void Engine::Impl::Cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  FinishAll(*found->second, FinishReason::kCancelled);
  DeliverFinished();
}

void Engine::Impl::DeliverFinished() {
  while (!finished_.empty()) {
    // Out of every table first: the callback may submit the next request.
    auto node = requests_.extract(finished_.back());
    finished_.pop_back();
    statistics_.OnRequest(*node.mapped());
    Deliver(*node.mapped());
  }
}

Result<Score> Engine::Impl::ScoreTokens(std::span<const TokenId> ids, int top_logprobs) {
  Request request;
  request.prompt.assign(ids.begin(), ids.end());
  request.max_tokens = 0;
  request.prompt_logprobs = top_logprobs;
  if (failure_) return *failure_;
  KV8_RETURN_IF_ERROR(CheckRequest(request, limits_));
  Score score;
  std::optional<Completion> done;
  auto record =
      MakeRecord(RequestId{next_id_++}, std::move(request), next_arrival_, limits_, nullptr);
  record->sequences.front()->prompt_rows = [&](std::int64_t position,
                                               std::span<const float> logits) {
    ScoreRow(ids, position, logits, top_logprobs, score);
  };
  record->on_done = [&](Completion completion) { done = std::move(completion); };
  Enqueue(std::move(record));
  while (!done) Step();
  if (done->error) return *done->error;
  score.seconds = done->timings.prefill_seconds;
  return score;
}

KvCacheInfo Engine::Impl::kv_cache() const {
  const KvCachePlan& plan = runner_.cache();
  KvCacheInfo info{
      .dtype = plan.kv.dtype,
      .bytes_per_token = plan.kv_bytes_per_token(),
      .pages = plan.pages,
      .free_pages = scheduler_.pages().free_count(),
      .cached_pages = scheduler_.tree().pages(),
      .bytes = plan.kv_bytes(),
      .index_bytes = plan.index_bytes(),
      .state_bytes = StateLayout::For(loaded_->model().spec, loaded_->with_draft()).bytes(),
      .scale_pack_id = loaded_->scale_pack_id(),
      .weights_binding = loaded_->lineage().weights,
      .accepted_lineage = loaded_->lineage().accepted};
  const Model& model = loaded_->model();
  const std::vector<StoreScales>& scales = loaded_->scales();
  const std::vector<SaturationCount> saturation = runner_.executor().Saturation();
  for (int i = 0; i < static_cast<int>(plan.layers); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const SaturationCount& clipped = saturation[at];
    const StoreScales scale = scales.empty() ? StoreScales{} : scales[at];
    info.layers.push_back({.layer = model.spec.LayerOfKv(i),
                           .draft = i >= model.spec.KvLayers(false),
                           .k_scale = scale.k,
                           .v_scale = scale.v,
                           .saturated_k = clipped.k,
                           .saturated_v = clipped.v,
                           .flushed_k = clipped.flushed_k,
                           .flushed_v = clipped.flushed_v});
  }
  return info;
}

std::vector<KvPageInfo> Engine::Impl::pool_map() const {
  const PagePool& pool = scheduler_.pages();
  std::vector<KvPageInfo> map(static_cast<std::size_t>(pool.capacity()));
  for (std::size_t i = 0; i < map.size(); ++i) {
    map[i].holders = pool.holders(static_cast<PageId>(i));
  }
  for (const PageId page : scheduler_.tree().page_ids()) {
    map[static_cast<std::size_t>(page)].cached = true;
  }
  for (const Sequence* sequence : scheduler_.running()) {  // by arrival, and so are request ids
    const RequestId id = sequence->request->completion.id;
    for (const PageId page : sequence->pages) {
      std::vector<RequestId>& requests = map[static_cast<std::size_t>(page)].requests;
      if (requests.empty() || requests.back() != id) requests.push_back(id);
    }
  }
  return map;
}

}  // namespace kv8
