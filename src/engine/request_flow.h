// A request from submission to completion: building it, appending tokens, deciding when it ends.
#pragma once

#include <memory>

#include "engine/request_check.h"
#include "engine/sequence.h"

namespace kv8 {

/// Builds the record and its waiting sequences. `tokenizer` is needed when text is wanted.
/// `arrival` numbers the sequences from here on.
std::unique_ptr<RequestRecord> MakeRecord(RequestId id, Request request, std::uint64_t arrival,
                                          const RequestLimits& limits, const Tokenizer* tokenizer);

/// Puts every sequence at the start of the request's constraint, if it has one, and has `worker`
/// find the first mask. `stop_ids` are the checkpoint's.
void Constrain(RequestRecord& record, std::span<const TokenId> stop_ids, MaskWorker& worker);

/// A chosen token and what the request asked to know about it.
struct NewToken {
  TokenId token = 0;
  std::optional<PositionLogprobs> logprobs;
};

/// Appends a token to a sequence and its choice and tells the client. Returns why the sequence
/// ends, or kNone; kError, and nobody is told of the token, when its constraint cannot follow.
FinishReason AppendToken(Sequence& sequence, NewToken token, std::span<const TokenId> stop_ids);

/// Why a constrained sequence cannot go on: no token may follow, or its constraint says why.
Error NotFollowed(const Sequence& sequence);

/// Notes a sequence's end in its choice. Returns whether the request is complete.
bool EndSequence(Sequence& sequence, FinishReason reason);

/// Fills in usage and timings and hands the completion over.
void Deliver(RequestRecord& record);

}  // namespace kv8
