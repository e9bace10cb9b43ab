// What a generated text must look like, as the engine sees it: which tokens may come next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kv8/error.h"
#include "kv8/types.h"

namespace kv8 {

/// Words of a mask over `vocab` tokens: token t is bit t % 64 of word t / 64.
constexpr std::size_t MaskWords(std::int64_t vocab) {
  return (static_cast<std::size_t>(vocab) + 63) / 64;
}

/// A place in a constrained text. The engine clones one for each choice and moves it with every
/// token. It decides about text only; stop ids are the engine's: they may come exactly where
/// `complete()`. Clones are independent; one of them is used by one thread at a time.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  /// A constraint at the same place. Cheap: the engine clones it to look ahead of drafts.
  virtual std::unique_ptr<TokenConstraint> Clone() const = 0;

  /// Finds the next mask ahead of FillMask, in about `work` units of some 50 ns. False when that is
  /// not enough: then FillMask would take longer, and Prepare may be called again, by another
  /// thread if need be.
  virtual bool Prepare(std::int64_t /*work*/) { return true; }

  /// Sets the bits of the tokens that may come next and clears all others. None are set once there
  /// is a failure.
  virtual void FillMask(std::span<std::uint64_t> mask) = 0;

  /// Moves on by `token`. False, and nothing changes, where its bit is not set, and when there is a
  /// failure.
  virtual bool Accept(TokenId token) = 0;

  /// Why the text cannot be followed any further, such as a limit of work or memory; null as long
  /// as it can. It ends the choice: no text past it is ever let through.
  virtual const Error* failure() const { return nullptr; }

  /// Whether the text so far satisfies the constraint.
  virtual bool complete() const = 0;

  /// Whether no further token may come: then the choice ends.
  virtual bool finished() const = 0;

 protected:
  TokenConstraint() = default;
  TokenConstraint(const TokenConstraint&) = default;
  TokenConstraint& operator=(const TokenConstraint&) = default;
};

}  // namespace kv8
