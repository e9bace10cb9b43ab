// A request inside the engine, and the sequences that work on it. Host data only, no tensors.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/constrained_output.h"
#include "engine/sampler.h"
#include "engine/text_output.h"
#include "engine/token_history.h"
#include "kv8/request.h"
#include "kvcache/layout.h"
#include "kvcache/prefix_tree.h"

namespace kv8 {

using Clock = std::chrono::steady_clock;

/// Receives the raw logits of prompt row `position` (what follows it), during the call only.
using PromptRowSink = std::function<void(std::int64_t position, std::span<const float> logits)>;

struct RequestRecord;

/// Where a sequence is in its life.
enum class Stage {
  kWaiting,    // holds nothing
  kPreempted,  // its cache and state are saved outside of the pools
  kPrefill,    // holds pages and a state slot
  kDecode,     // the same, and the prompt is computed
  kFinished,   // holds nothing
};

/// A token that the draft head proposes.
struct DraftToken {
  TokenId token = 0;
  Candidates distribution;  // what it was drawn from; empty when it was the best
};

/// One continuation of a prompt.
struct Sequence {
  RequestRecord* request = nullptr;
  int choice = 0;
  std::uint64_t arrival = 0;  // lower is served first
  Stage stage = Stage::kWaiting;

  std::vector<TokenId> tokens;  // prompt, then output
  std::int64_t prompt_tokens = 0;
  std::int64_t choosable = 0;      // ids that may come next: the first so many
  std::int64_t max_total = 0;      // tokens at which it ends
  std::int64_t computed = 0;       // leading tokens that cache and state contain
  int max_drafts = 0;              // per step
  std::vector<DraftToken> drafts;  // what may follow the last token

  std::vector<PageId> pages;
  int slot = -1;                              // of recurrent state
  std::vector<std::int64_t> snapshot_points;  // prompt lengths to keep the state at, ascending
  std::optional<SnapshotId> answer_snapshot;  // the last one of what it generated
  std::uint64_t last_prefill_step = 0;        // for taking turns
  PromptRowSink prompt_rows;                  // may be empty

  TokenHistory history;
  bool finite = true;  // false once its logits were not; then its request ends with an error
  std::optional<TextOutput> text;
  std::optional<ConstrainedOutput> constraint;
  std::optional<Clock::time_point> last_output;  // when a step last gave it tokens

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t draft_count() const { return static_cast<std::int64_t>(drafts.size()); }
  /// Tokens, or drafts after them.
  TokenId TokenAt(std::int64_t position) const {
    return position < size() ? tokens[static_cast<std::size_t>(position)]
                             : drafts[static_cast<std::size_t>(position - size())].token;
  }
  /// Drafts that can still become output: the last token of a step is never a draft.
  std::int64_t useful_drafts() const {
    return std::min<std::int64_t>(max_drafts, max_total - size() - 1);
  }
  /// Tokens that the pages must cover in this step: its rows, and the drafts made after them.
  std::int64_t reach() const {
    return std::min(size() + draft_count() + std::max(0, max_drafts - 1), max_total);
  }
  /// Pages that other prompts may share: complete ones, with the token after them in the prompt.
  std::int64_t shareable_pages() const { return (prompt_tokens - 1) / kPageTokens; }
  std::span<const TokenId> prompt() const {
    return std::span(tokens).first(static_cast<std::size_t>(prompt_tokens));
  }
  /// Whether what may come next is known, should it be needed.
  bool mask_ready() const { return !constraint || constraint->ready(); }
  bool running() const { return stage == Stage::kPrefill || stage == Stage::kDecode; }
};

/// A submitted request and its answer in the making.
struct RequestRecord {
  Request request;
  TokenCallback on_token;
  std::function<void(Completion)> on_done;
  Completion completion;
  std::vector<std::unique_ptr<Sequence>> sequences;  // one per choice
  int unfinished = 0;
  Clock::time_point submitted;
  std::optional<Clock::time_point> started;      // first row scheduled
  std::optional<Clock::time_point> first_token;  // prompt done
  Clock::time_point last_token;
};

/// The logits of the ids that may come next. A padded vocabulary has more rows than tokens.
inline std::span<float> Choosable(const Sequence& sequence, std::span<float> logits) {
  return logits.first(static_cast<std::size_t>(sequence.choosable));
}

/// Whether something the request asks for changes the logits before a token is chosen.
inline bool ChangesLogits(const Sequence& sequence) {
  const SamplingOptions& s = sequence.request->request.sampling;
  return s.repetition_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0 ||
         !s.logit_bias.empty() || sequence.constraint;
}

/// Whether the host must see the logits. Else it is enough to know, for each row, the token that
/// the request's ChoiceRule says.
inline bool NeedsLogits(const Sequence& sequence) {
  const auto has_distribution = [](const DraftToken& draft) {
    return !draft.distribution.tokens.empty();
  };
  return ChangesLogits(sequence) || sequence.request->request.logprobs.has_value() ||
         std::ranges::any_of(sequence.drafts, has_distribution);
}

}  // namespace kv8
