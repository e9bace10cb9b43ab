// A compiled grammar together with one vocabulary, shared by all texts that follow it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "grammar/machine.h"
#include "grammar/program.h"
#include "grammar/token_masks.h"
#include "grammar/token_trie.h"
#include "kv8/constraint.h"
#include "kv8/error.h"

namespace kv8 {

/// What one text may cost, in units of Machine::Allow.
struct MatcherLimits {
  std::int64_t token_work = 200'000;                  // to follow one token: some 10 ms
  std::int64_t mask_work = 20'000'000;                // to find one mask: some second
  std::int64_t text_work = 400'000'000;               // all masks of one text
  std::size_t forget_bytes = Machine::kMaxBytes / 2;  // memory of a machine that is forgotten
};

/// What is computed for one text serves all others. Thread-safe. Texts are followed by one machine,
/// masks are found by another, so that no text waits while the mask of another one is found. The
/// memory of both is bounded: when it has grown, everything is forgotten but the places of living
/// cursors.
class Matcher : public std::enable_shared_from_this<Matcher> {
 public:
  /// Errors: kUnsupported when the grammar is too large to begin a text.
  static Result<std::shared_ptr<Matcher>> Make(Program program,
                                               std::shared_ptr<const TokenTrie> trie,
                                               const MatcherLimits& limits = {});

  /// The start of a text.
  std::unique_ptr<TokenConstraint> Start();

 private:
  class Cursor;

  Matcher(Program program, std::shared_ptr<const TokenTrie> trie, const MatcherLimits& limits);

  bool FindMask(Cursor& cursor, std::int64_t work);
  bool Accept(Cursor& cursor, TokenId token);
  void Add(Cursor& cursor);
  void Remove(Cursor& cursor);
  void ForgetPlacesIfLarge();
  void ForgetMasksIfLarge();

  const Program program_;
  const std::shared_ptr<const TokenTrie> trie_;
  const MatcherLimits limits_;

  std::mutex places_mutex_;  // taken after masks_mutex_ where both are
  std::unique_ptr<Machine> places_;
  bool places_whole_ = true;  // false when memory ran out while it grew: it is copied, then left
  std::size_t forget_places_at_;
  std::unordered_set<Cursor*> cursors_;

  std::mutex masks_mutex_;
  std::unique_ptr<Machine> mask_machine_;
  bool masks_whole_ = true;  // likewise
  std::optional<TokenMasks> masks_;
};

}  // namespace kv8
