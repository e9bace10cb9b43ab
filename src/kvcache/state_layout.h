// The arrays of a sequence's state that is not paged, by name: what every device lays out, saves,
// loads and rolls back.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kv8/types.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// What an array holds. All have elements of 4 bytes.
enum class StateKind : int {
  kGdnConv,     // [kernel-1, C] f32: last raw inputs of a GDN layer's convolution
  kGdnState,    // [value_heads, key_dim, value_dim] f32
  kPleConv,     // [(kernel-1)*dilation, S*H] f32: last inputs of the n-gram memory's convolution
  kPleContext,  // [ngram_size-1] ids: last tokens
  kIndexRing,   // [kIndexRingTokens, index_dim] f32: raw index keys of the last tokens
};
inline constexpr int kStateKinds = 5;

/// One array of one sequence.
struct StateArray {
  StateKind kind{};
  int layer = 0;  // among the layers that have this kind
  std::int64_t bytes = 0;
  std::int64_t offset = 0;  // in a packed state, where the arrays follow each other
};

/// All arrays of one sequence, in the order of a packed state.
class StateLayout {
 public:
  /// `eos` is what an n-gram context holds before the first token.
  explicit StateLayout(TokenId eos = 0) : eos_(eos) {}

  /// What a sequence of this model needs, with or without its draft head.
  static StateLayout For(const ModelSpec& spec, bool with_draft);

  /// Appends the array of the kind's next layer. Index rings come last: see Recurrent.
  void Add(StateKind kind, std::int64_t elements);

  std::span<const StateArray> arrays() const { return arrays_; }
  /// Place in arrays() of a layer's array.
  std::size_t IndexOf(StateKind kind, int layer) const {
    return by_kind_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(layer)];
  }
  const StateArray& Of(StateKind kind, int layer) const { return arrays_[IndexOf(kind, layer)]; }
  /// How many layers have the kind.
  int Layers(StateKind kind) const {
    return static_cast<int>(by_kind_[static_cast<std::size_t>(kind)].size());
  }
  std::int64_t bytes() const { return bytes_; }
  TokenId eos() const { return eos_; }

  /// What a rollback restores: everything but the index rings, which hold enough tokens to go back
  /// without a copy. Packed, it is the beginning of the whole state.
  StateLayout Recurrent() const;

 private:
  TokenId eos_;
  std::vector<StateArray> arrays_;
  std::array<std::vector<std::size_t>, kStateKinds> by_kind_;
  std::int64_t bytes_ = 0;
};

}  // namespace kv8
