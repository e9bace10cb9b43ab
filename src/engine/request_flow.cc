#include "engine/request_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kv8 {
namespace {

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double Rate(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

bool IsStopId(const Request& request, std::span<const TokenId> stop_ids, TokenId token) {
  const auto among = [token](std::span<const TokenId> ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return among(request.stop_ids) || (!request.ignore_eos && among(stop_ids));
}

Choice& ChoiceOf(Sequence& sequence) {
  return sequence.request->completion.choices[static_cast<std::size_t>(sequence.choice)];
}

}  // namespace

std::unique_ptr<RequestRecord> MakeRecord(RequestId id, Request request, std::uint64_t arrival,
                                          const RequestLimits& limits, const Tokenizer* tokenizer) {
  auto record = std::make_unique<RequestRecord>();
  record->request = std::move(request);
  record->submitted = Clock::now();
  const Request& r = record->request;
  const auto prompt = static_cast<std::int64_t>(r.prompt.size());
  record->completion.id = id;
  record->completion.usage.prompt_tokens = prompt;
  record->completion.choices.resize(static_cast<std::size_t>(r.choices));
  record->unfinished = r.choices;
  for (int choice = 0; choice < r.choices; ++choice) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request = record.get();
    sequence->choice = choice;
    sequence->arrival = arrival + static_cast<std::uint64_t>(choice);
    sequence->prompt_tokens = prompt;
    sequence->choosable = limits.choosable;
    sequence->max_total = r.max_tokens ? prompt + *r.max_tokens : limits.max_model_len;
    sequence->max_drafts = r.speculative_tokens.value_or(limits.speculative_tokens);
    sequence->tokens.reserve(static_cast<std::size_t>(sequence->max_total));
    sequence->tokens.assign(r.prompt.begin(), r.prompt.end());
    sequence->pages.reserve(static_cast<std::size_t>(sequence->max_total / kPageTokens + 1));
    sequence->history = TokenHistory(r.sampling, r.prompt);
    if (tokenizer != nullptr) sequence->text.emplace(*tokenizer, r.stop);
    record->sequences.push_back(std::move(sequence));
  }
  return record;
}

void Constrain(RequestRecord& record, std::span<const TokenId> stop_ids, MaskWorker& worker) {
  const Request& request = record.request;
  if (!request.constraint) return;
  std::vector<TokenId> stops = request.stop_ids;
  if (!request.ignore_eos) stops.insert(stops.end(), stop_ids.begin(), stop_ids.end());
  const std::int64_t choosable = record.sequences.front()->choosable;
  std::erase_if(stops, [choosable](TokenId id) { return id >= choosable; });
  for (const auto& sequence : record.sequences) {
    sequence->constraint.emplace(request.constraint->Clone(), stops);
    sequence->constraint->Prepare(worker);
  }
}

FinishReason AppendToken(Sequence& sequence, NewToken token, std::span<const TokenId> stop_ids) {
  RequestRecord& record = *sequence.request;
  Choice& choice = ChoiceOf(sequence);
  const bool stop_id = IsStopId(record.request, stop_ids, token.token);
  if (sequence.constraint && !stop_id && !sequence.constraint->Push(token.token)) {
    record.completion.error = NotFollowed(sequence);
    return FinishReason::kError;
  }
  sequence.tokens.push_back(token.token);
  sequence.history.Push(token.token);
  choice.token_ids.push_back(token.token);

  TokenEvent event{
      .request = record.completion.id, .choice = sequence.choice, .token = token.token};
  std::string text;
  if (sequence.text) text = sequence.text->Push(token.token);
  if (stop_id || (sequence.text && sequence.text->stop() != nullptr) ||
      (sequence.constraint && sequence.constraint->finished())) {
    event.finish = FinishReason::kStop;
  } else if (sequence.size() == sequence.max_total) {
    event.finish = FinishReason::kLength;
  }
  if (sequence.text && event.finish != FinishReason::kNone) text += sequence.text->Finish();
  event.text = text;
  if (token.logprobs) {
    choice.logprobs.push_back(std::move(*token.logprobs));
    event.logprobs = &choice.logprobs.back();
  }
  record.last_token = Clock::now();
  const TokenReply reply = record.on_token ? record.on_token(event) : TokenReply::kGoOn;
  if (reply == TokenReply::kCancel) return FinishReason::kCancelled;
  return reply == TokenReply::kStop ? FinishReason::kStop : event.finish;
}

Error NotFollowed(const Sequence& sequence) {
  if (const Error* failure = sequence.constraint->failure()) return *failure;
  return Error{Code::kMismatch,
               fmt::format("no token may follow at position {}, and the text is not complete",
                           sequence.size()),
               "constraint", "allow shorter or less deeply nested text"};
}

bool EndSequence(Sequence& sequence, FinishReason reason) {
  Choice& choice = ChoiceOf(sequence);
  choice.finish_reason = reason;
  if (sequence.text) {
    choice.text = sequence.text->text();
    if (sequence.text->stop() != nullptr) choice.stop_string = *sequence.text->stop();
  }
  return --sequence.request->unfinished == 0;
}

void Deliver(RequestRecord& record) {
  Completion& done = record.completion;
  for (const Choice& choice : done.choices) {
    done.usage.completion_tokens += static_cast<std::int64_t>(choice.token_ids.size());
  }
  Timings& t = done.timings;
  const Clock::time_point now = Clock::now();
  const Clock::time_point started = record.started.value_or(now);
  const Clock::time_point first = record.first_token.value_or(now);
  t.queue_seconds = Seconds(record.submitted, started);
  t.prefill_seconds = Seconds(started, first);
  t.prefill_tokens_per_second =
      Rate(done.usage.prompt_tokens - done.usage.cached_tokens, t.prefill_seconds);
  if (done.usage.completion_tokens > 0) {
    t.decode_seconds = Seconds(first, record.last_token);
    // The first token of each choice comes out of prefill.
    const std::int64_t decoded =
        std::max<std::int64_t>(0, done.usage.completion_tokens - std::ssize(done.choices));
    t.decode_tokens_per_second = Rate(decoded, t.decode_seconds);
  }
  if (record.on_done) record.on_done(std::move(done));
}

}  // namespace kv8
