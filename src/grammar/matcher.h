// A compiled grammar together with one vocabulary, shared by all texts that follow it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_set>

#include "grammar/machine.h"
#include "grammar/program.h"
#include "grammar/token_masks.h"
#include "grammar/token_trie.h"
#include "kv8/constraint.h"

namespace kv8 {

/// What is computed for one text serves all others. Thread-safe. Its memory is bounded: when it has
/// grown, everything is forgotten but the places of living cursors.
class Matcher : public std::enable_shared_from_this<Matcher> {
 public:
  /// Memory of a machine at which it is forgotten.
  static constexpr std::size_t kForgetBytes = Machine::kMaxBytes / 2;

  Matcher(Program program, std::shared_ptr<const TokenTrie> trie,
          std::size_t forget_bytes = kForgetBytes);

  /// The start of a text.
  std::unique_ptr<TokenConstraint> Start();

 private:
  class Cursor;

  void FillMask(const Cursor& cursor, std::span<std::uint64_t> mask);
  bool Accept(Cursor& cursor, TokenId token);
  void Add(Cursor& cursor);
  void Remove(Cursor& cursor);
  void ForgetIfLarge();

  const Program program_;
  const std::shared_ptr<const TokenTrie> trie_;
  const std::size_t forget_bytes_;
  std::mutex mutex_;
  std::unique_ptr<Machine> machine_;
  std::optional<TokenMasks> masks_;
  std::unordered_set<Cursor*> cursors_;
};

}  // namespace kv8
