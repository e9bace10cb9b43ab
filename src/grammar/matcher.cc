#include "grammar/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kv8 {
namespace {

Error TooMuch(std::string_view what) {
  // Not kResourceExhausted: the same request would fail again.
  return Error{Code::kUnsupported,
               fmt::format("{} takes more work or memory than one text may", what), "constraint",
               "make the schema or expression smaller or less ambiguous"};
}

}  // namespace

/// The place is changed under the matcher's mutex of places only, the rest by its owner.
class Matcher::Cursor final : public TokenConstraint {
 public:
  explicit Cursor(std::shared_ptr<Matcher> matcher) : matcher_(std::move(matcher)) {
    matcher_->Add(*this);
  }
  Cursor(const Cursor& other)
      : TokenConstraint(other),
        matcher_(other.matcher_),
        mask_(other.mask_),
        has_mask_(other.has_mask_),
        work_(other.work_),
        failure_(other.failure_) {
    const std::lock_guard lock(matcher_->places_mutex_);
    state_ = other.state_;
    complete_ = other.complete_;
    finished_ = other.finished_;
    matcher_->cursors_.insert(this);
  }
  Cursor& operator=(const Cursor&) = delete;
  ~Cursor() override { matcher_->Remove(*this); }

  std::unique_ptr<TokenConstraint> Clone() const override {
    return std::make_unique<Cursor>(*this);
  }
  bool Prepare(std::int64_t work) override {
    return has_mask_ || failure_ || matcher_->FindMask(*this, work);
  }
  void FillMask(std::span<std::uint64_t> mask) override {
    std::fill(mask.begin(), mask.end(), 0);
    Prepare(matcher_->limits_.mask_work);
    if (failure_) return;
    std::copy_n(mask_.begin(), std::min(mask_.size(), mask.size()), mask.begin());
  }
  bool Accept(TokenId token) override { return !failure_ && matcher_->Accept(*this, token); }
  bool complete() const override { return complete_; }
  bool finished() const override { return finished_; }
  const Error* failure() const override { return failure_ ? &*failure_ : nullptr; }

 private:
  friend class Matcher;

  void MoveTo(StateId state, const Machine& machine) {
    state_ = state;
    complete_ = machine.complete(state);
    finished_ = machine.finished(state);
  }

  const std::shared_ptr<Matcher> matcher_;
  StateId state_ = kDeadState;  // of places_
  bool complete_ = false;
  bool finished_ = false;
  std::vector<std::uint64_t> mask_;
  bool has_mask_ = false;
  std::int64_t work_ = 0;  // for masks that took more than one attempt
  std::optional<Error> failure_;
};

Result<std::shared_ptr<Matcher>> Matcher::Make(Program program,
                                               std::shared_ptr<const TokenTrie> trie,
                                               const MatcherLimits& limits) {
  std::shared_ptr<Matcher> matcher(new Matcher(std::move(program), std::move(trie), limits));
  if (matcher->places_->spent()) return TooMuch("the start of a text");
  return matcher;
}

Matcher::Matcher(Program program, std::shared_ptr<const TokenTrie> trie,
                 const MatcherLimits& limits)
    : program_(std::move(program)),
      trie_(std::move(trie)),
      limits_(limits),
      places_(std::make_unique<Machine>(program_)),
      forget_places_at_(limits.forget_bytes),
      mask_machine_(std::make_unique<Machine>(program_)) {
  masks_.emplace(*trie_, *mask_machine_);
}

std::unique_ptr<TokenConstraint> Matcher::Start() {
  return std::make_unique<Cursor>(shared_from_this());
}

void Matcher::Add(Cursor& cursor) {
  const std::lock_guard lock(places_mutex_);
  cursor.MoveTo(places_->start(), *places_);
  cursors_.insert(&cursor);
}

void Matcher::Remove(Cursor& cursor) {
  const std::lock_guard lock(places_mutex_);
  cursors_.erase(&cursor);
}

/// Whether the cursor has its mask, or a failure, after so much work.
bool Matcher::FindMask(Cursor& cursor, std::int64_t work) {
  const bool has_patience = work >= limits_.mask_work;
  std::unique_lock lock(masks_mutex_, std::defer_lock);
  if (has_patience) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return false;
  }
  ForgetMasksIfLarge();
  mask_machine_->Allow(std::min(work, limits_.mask_work));
  StateId state = kDeadState;
  masks_whole_ = false;
  {
    const std::lock_guard places_lock(places_mutex_);
    state = mask_machine_->Copy(*places_, cursor.state_);
  }
  const std::vector<std::uint64_t>* mask = masks_->Find(state);
  masks_whole_ = true;
  if (has_patience) cursor.work_ += mask_machine_->used();
  if (mask != nullptr && state != kDeadState && cursor.work_ <= limits_.text_work) {
    cursor.mask_ = *mask;
    cursor.has_mask_ = true;
    return true;
  }
  if (has_patience) cursor.failure_ = TooMuch("the mask of a token");
  return has_patience;
}

bool Matcher::Accept(Cursor& cursor, TokenId token) {
  const std::string_view bytes = trie_->Bytes(token);
  if (bytes.empty()) return false;
  const std::lock_guard lock(places_mutex_);
  ForgetPlacesIfLarge();
  places_->Allow(limits_.token_work);
  places_whole_ = false;
  const StateId next = places_->Run(cursor.state_, bytes);
  places_whole_ = true;
  if (places_->spent() || cursor.state_ == kDeadState) {
    cursor.failure_ = TooMuch("following the text");
    return false;
  }
  if (next == kDeadState) return false;
  cursor.MoveTo(next, *places_);
  cursor.has_mask_ = false;
  return true;
}

void Matcher::ForgetPlacesIfLarge() {
  if (places_whole_ && places_->bytes() < forget_places_at_) return;
  auto fresh = std::make_unique<Machine>(program_);
  // All are copied before one moves, as memory may run out. States that cursors are at were
  // complete before it did, and do not change. A cursor for which there is no room is at
  // kDeadState, where no text leads: its owner finds that.
  std::vector<StateId> copies;
  for (const Cursor* cursor : cursors_) copies.push_back(fresh->Copy(*places_, cursor->state_));
  std::size_t i = 0;
  for (Cursor* cursor : cursors_) cursor->MoveTo(copies[i++], *fresh);
  places_ = std::move(fresh);
  places_whole_ = true;
  forget_places_at_ = std::max(limits_.forget_bytes, 2 * places_->bytes());
}

void Matcher::ForgetMasksIfLarge() {
  if (masks_whole_ && mask_machine_->bytes() < limits_.forget_bytes) return;
  masks_whole_ = false;
  masks_.reset();
  mask_machine_ = std::make_unique<Machine>(program_);
  masks_.emplace(*trie_, *mask_machine_);
}

}  // namespace kv8
