#include "grammar/matcher.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kv8 {
namespace {

FrameId CopyFrame(const Machine& from, FrameId id, Machine& to) {
  if (id == kNoCaller) return kNoCaller;
  const Frame& frame = from.frame(id);
  return to.Push(CopyFrame(from, frame.parent, to), frame.pc, frame.count);
}

StateId CopyState(const Machine& from, StateId id, Machine& to) {
  std::vector<Way> ways;
  for (const Way& way : from.ways(id)) {
    ways.push_back({way.pc, CopyFrame(from, way.frame, to)});
  }
  return to.Intern(std::move(ways));
}

}  // namespace

/// Members other than the first change under the matcher's mutex only.
class Matcher::Cursor final : public TokenConstraint {
 public:
  explicit Cursor(std::shared_ptr<Matcher> matcher) : matcher_(std::move(matcher)) {
    matcher_->Add(*this);
  }
  Cursor(const Cursor& other) : TokenConstraint(other), matcher_(other.matcher_) {
    const std::lock_guard lock(matcher_->mutex_);
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
  void FillMask(std::span<std::uint64_t> mask) override { matcher_->FillMask(*this, mask); }
  bool Accept(TokenId token) override { return matcher_->Accept(*this, token); }
  bool complete() const override { return complete_; }
  bool finished() const override { return finished_; }

 private:
  friend class Matcher;

  void MoveTo(StateId state, const Machine& machine) {
    state_ = state;
    complete_ = machine.complete(state);
    finished_ = machine.finished(state);
  }

  const std::shared_ptr<Matcher> matcher_;
  StateId state_ = kDeadState;
  bool complete_ = false;
  bool finished_ = false;
};

Matcher::Matcher(Program program, std::shared_ptr<const TokenTrie> trie, std::size_t forget_bytes)
    : program_(std::move(program)),
      trie_(std::move(trie)),
      forget_bytes_(forget_bytes),
      machine_(std::make_unique<Machine>(program_)) {
  masks_.emplace(*trie_, *machine_);
}

std::unique_ptr<TokenConstraint> Matcher::Start() {
  return std::make_unique<Cursor>(shared_from_this());
}

void Matcher::Add(Cursor& cursor) {
  const std::lock_guard lock(mutex_);
  cursor.MoveTo(machine_->start(), *machine_);
  cursors_.insert(&cursor);
}

void Matcher::Remove(Cursor& cursor) {
  const std::lock_guard lock(mutex_);
  cursors_.erase(&cursor);
}

void Matcher::FillMask(const Cursor& cursor, std::span<std::uint64_t> mask) {
  std::fill(mask.begin(), mask.end(), 0);
  const std::lock_guard lock(mutex_);
  ForgetIfLarge();
  masks_->Fill(cursor.state_, mask);
}

bool Matcher::Accept(Cursor& cursor, TokenId token) {
  const std::string_view bytes = trie_->Bytes(token);
  if (bytes.empty()) return false;
  const std::lock_guard lock(mutex_);
  ForgetIfLarge();
  const StateId next = machine_->Run(cursor.state_, bytes);
  if (next == kDeadState) return false;
  cursor.MoveTo(next, *machine_);
  return true;
}

void Matcher::ForgetIfLarge() {
  if (machine_->bytes() < forget_bytes_) return;
  auto fresh = std::make_unique<Machine>(program_);
  for (Cursor* cursor : cursors_) {
    cursor->MoveTo(CopyState(*machine_, cursor->state_, *fresh), *fresh);
  }
  machine_ = std::move(fresh);
  masks_.emplace(*trie_, *machine_);
}

}  // namespace kv8
