#include "engine/constrained_output.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace kv8 {

ConstrainedOutput::ConstrainedOutput(std::unique_ptr<TokenConstraint> start,
                                     std::vector<TokenId> stop_ids)
    : here_(std::make_shared<ConstraintPlace>()), stop_ids_(std::move(stop_ids)) {
  here_->constraint = std::move(start);
}

bool ConstrainedOutput::MaskAt(TokenConstraint& place, std::span<float> logits) {
  mask_.assign(MaskWords(static_cast<std::int64_t>(logits.size())), 0);
  place.FillMask(mask_);
  for (const TokenId stop : stop_ids_) {
    const auto id = static_cast<std::size_t>(stop);
    const std::uint64_t bit = std::uint64_t{1} << (id % 64);
    mask_[id / 64] = place.complete() ? mask_[id / 64] | bit : mask_[id / 64] & ~bit;
  }
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  bool any = false;
  for (std::size_t begin = 0; begin < logits.size(); begin += 64) {
    const std::span<float> part =
        logits.subspan(begin, std::min<std::size_t>(64, logits.size() - begin));
    const std::uint64_t word = mask_[begin / 64];
    if (word == 0) {
      std::fill(part.begin(), part.end(), kForbidden);
      continue;
    }
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool allowed = (word >> i & 1) != 0;
      part[i] = allowed ? part[i] : kForbidden;
      any |= allowed;
    }
  }
  return any;
}

bool ConstrainedOutput::MaskDraft(std::span<float> logits) {
  if (!ready()) return false;
  try {
    return MaskAhead(logits);
  } catch (const std::bad_alloc&) {
    return false;  // drafts are no duty
  }
}

bool ConstrainedOutput::MaskAhead(std::span<float> logits) {
  if (!ahead_) ahead_ = here_->constraint->Clone();
  if (ahead_->finished() || !ahead_->Prepare(kInlineMaskWork)) return false;
  return MaskAt(*ahead_, logits);
}

void ConstrainedOutput::PushDraft(TokenId token) {
  // A stop id does not advance the constraint: the target chooses it too, or rejects it.
  try {
    ahead_->Accept(token);
  } catch (const std::bad_alloc&) {
    ahead_.reset();  // a draft after a wrong place is refused
  }
}

}  // namespace kv8
