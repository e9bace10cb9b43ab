#include "engine/speculation.h"

#include <algorithm>

namespace kv8 {
namespace {

bool WantsDraft(const Sequence& sequence) {
  return sequence.stage == Stage::kDecode && sequence.draft_count() < sequence.useful_drafts();
}

}  // namespace

Verdict Verify(Sampler& sampler, const Sequence& sequence, std::size_t index,
               std::span<const float> logits) {
  const SamplingOptions& options = sequence.request->request.sampling;
  const std::int64_t position = sequence.size();
  const bool drafted = index < sequence.drafts.size();
  if (!drafted || sequence.drafts[index].distribution.tokens.empty()) {
    const TokenId token = sampler.Next(options, logits, sequence.choice, position);
    return {token, drafted && token == sequence.drafts[index].token};
  }
  const auto& [token, q] = sequence.drafts[index];
  Candidates& p = sampler.Distribution(options, logits);
  const double uniform = UniformAt(options.seed, sequence.choice, position, Draw::kAccept);
  if (uniform * q.Of(token) < p.Of(token)) return {token, true};
  const std::uint64_t random = RandomAt(options.seed, sequence.choice, position, Draw::kResidual);
  return {sampler.DrawResidual(p, q, random), false};
}

Verdict VerifyToken(const Sequence& sequence, std::size_t index, TokenId token) {
  return {token, index < sequence.drafts.size() && token == sequence.drafts[index].token};
}

void Speculator::Propose(const StepPlan& plan) {
  Refresh(plan);
  while (!items_.empty()) {
    const std::span<const TokenId> best = BestTokens();
    const Matrix logits =
        best.empty() ? runner_.DraftLogits(static_cast<std::int64_t>(items_.size())) : Matrix();
    std::vector<DraftItem>& next = items_;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      Sequence& sequence = *items_[i].sequence;
      const std::int64_t position = sequence.size() - 1 + sequence.draft_count();
      if (!best.empty()) {
        if (!(sequence.finite = best[i] != kNoToken)) continue;
        sequence.drafts.push_back({best[i], {}});
      } else {
        const std::span<float> row = logits.row(static_cast<std::int64_t>(i));
        if (!(sequence.finite = AllFinite(row)) || !Choose(sequence, row)) continue;
      }
      if (!WantsDraft(sequence)) continue;
      next[kept++] = {&sequence, position, 1, static_cast<std::int64_t>(i)};
    }
    items_.resize(kept);
    if (kept > 0) runner_.Draft(items_, StreamSource::kDraft);
  }
}

/// Whether a draft is the most likely token, by logits as they are.
bool Speculator::TakesBest(const Sequence& sequence) const {
  const float temperature = sequence.request->request.sampling.temperature;
  return !ChangesLogits(sequence) && (sampling_ == DraftSampling::kGreedy || temperature == 0);
}

/// The drafts of all items, when the executor chooses and nobody asks for more.
std::span<const TokenId> Speculator::BestTokens() {
  const bool will_do = std::ranges::all_of(
      items_, [this](const DraftItem& item) { return TakesBest(*item.sequence); });
  if (!will_do) return {};
  return runner_.BestDraftTokens(static_cast<std::int64_t>(items_.size()));
}

/// One pass over all rows that were kept. Leaves the items of sequences that want drafts, which
/// stand first in the pass.
void Speculator::Refresh(const StepPlan& plan) {
  items_.clear();
  std::int64_t row = 0;
  for (const PlanItem& item : plan.items) {
    const std::int64_t kept = item.sequence->computed - item.first_position;
    if (item.sequence->running()) {
      items_.push_back({item.sequence, item.first_position, kept, row});
    }
    row += item.rows;
  }
  if (items_.empty()) return;
  const auto wanting =
      std::stable_partition(items_.begin(), items_.end(),
                            [](const DraftItem& item) { return WantsDraft(*item.sequence); });
  runner_.Draft(items_, StreamSource::kTarget);
  items_.erase(wanting, items_.end());
}

/// Appends the next draft of a sequence. False when its constraint leaves none.
bool Speculator::Choose(Sequence& sequence, std::span<float> logits) {
  const SamplingOptions& options = sequence.request->request.sampling;
  const std::span<float> choosable = Choosable(sequence, logits);
  if (sequence.constraint && !sequence.constraint->MaskDraft(choosable)) return false;
  Sampler::Adjust(options, sequence.history, logits);
  if (sampling_ == DraftSampling::kGreedy || options.temperature == 0) {
    sequence.drafts.push_back({ArgMaxToken(choosable), {}});
  } else {
    const std::int64_t position = sequence.size() + sequence.draft_count();
    Candidates& q = sampler_.Distribution(options, choosable);
    const TokenId token = q.At(RandomAt(options.seed, sequence.choice, position, Draw::kDraft));
    sequence.drafts.push_back({token, q});
  }
  if (sequence.constraint) sequence.constraint->PushDraft(sequence.drafts.back().token);
  return true;
}

}  // namespace kv8
