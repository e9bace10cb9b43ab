// Speculative decoding: the draft head proposes, the target's next forward pass decides.
#pragma once

#include <span>
#include <vector>

#include "engine/runner.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "kv8/engine.h"

namespace kv8 {

/// What the target says at one row.
struct Verdict {
  TokenId token = 0;      // comes next
  bool accepted = false;  // it is the draft of that place: the next row is valid too
};

/// Decides about row `index` of a verification, which follows the sequence's last token.
/// `logits` are the target's, adjusted.
///
/// A draft without a distribution is accepted when it is what the target chooses anyway, with the
/// draws it would use without speculation. A draft x drawn from q is accepted with probability
/// min(1, p(x) / q(x)); else the token is drawn from max(0, p - q), normalised: the result follows
/// p.
Verdict Verify(Sampler& sampler, const Sequence& sequence, std::size_t index,
               std::span<const float> logits);

/// The same for a sequence that does not NeedLogits: `token` is what the target chooses there.
Verdict VerifyToken(const Sequence& sequence, std::size_t index, TokenId token);

/// Runs the draft head after a step was committed.
class Speculator {
 public:
  Speculator(Runner& runner, DraftSampling sampling) : runner_(runner), sampling_(sampling) {}

  /// Feeds every row that the step kept to the draft head, then fills in the drafts of each
  /// sequence that generates.
  void Propose(const StepPlan& plan);

 private:
  void Refresh(const StepPlan& plan);
  bool TakesBest(const Sequence& sequence) const;
  bool Choose(Sequence& sequence, std::span<float> logits);
  std::span<const TokenId> BestTokens();

  Runner& runner_;
  DraftSampling sampling_;
  Sampler sampler_;
  std::vector<DraftItem> items_;
};

}  // namespace kv8
