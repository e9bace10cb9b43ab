// Per-sequence state that is not paged: GDN, convolutions, n-gram context, open index blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "kv8/types.h"
#include "tensor/layer_config.h"

namespace kv8 {

/// Sizes of one sequence's state.
struct StateLayout {
  GdnConfig gdn;
  std::int64_t gdn_layers = 0;
  std::int64_t ple_layers = 0;
  std::int64_t ple_conv_rows = 0;  // (kernel - 1) * dilation
  std::int64_t ple_context = 0;    // ngram_size - 1 ids
  std::int64_t stream_width = 0;   // streams * hidden
  std::int64_t index_rings = 0;    // QSA layers, the draft layer last when there is one
  std::int64_t index_dim = 0;
  TokenId eos = 0;  // what the n-gram context holds before the first token

  std::int64_t gdn_conv_floats() const { return (gdn.conv_kernel - 1) * gdn.conv_channels(); }
  std::int64_t gdn_state_floats() const {
    return static_cast<std::int64_t>(gdn.value_heads) * gdn.key_dim * gdn.value_dim;
  }
  std::int64_t ple_conv_floats() const { return ple_conv_rows * stream_width; }
  std::int64_t ring_floats() const;
  /// Floats of everything but the index rings.
  std::int64_t recurrent_floats() const;
  /// All floats of one sequence.
  std::int64_t floats() const;
  std::int64_t bytes() const;
};

/// State of one sequence; starts as that of an empty one. Move-only: copies are large.
class SequenceState {
 public:
  explicit SequenceState(const StateLayout& layout);
  SequenceState(SequenceState&&) = default;
  SequenceState& operator=(SequenceState&&) = default;

  std::int64_t bytes() const { return layout_.bytes(); }
  /// Back to the empty sequence.
  void Reset();
  /// Takes everything but the index rings from `other`; the layouts may differ in those. A ring
  /// holds enough tokens to go back by a few without a copy.
  void CopyRecurrentFrom(const SequenceState& other);
  /// Writes the layout's bytes(): recurrent floats, n-gram context, index rings. So a layout
  /// without rings writes the beginning of what one with rings does.
  void CopyOut(std::span<std::byte> to) const;
  /// Becomes what CopyOut wrote with the same layout.
  void CopyIn(std::span<const std::byte> from);

  std::span<float> GdnConv(int gdn_layer);
  std::span<float> GdnState(int gdn_layer);
  std::span<float> PleConv(int ple_layer);
  std::span<TokenId> PleContext(int ple_layer);
  std::span<float> IndexRing(int qsa_layer);

 private:
  StateLayout layout_;
  AlignedVector<float> floats_;  // per GDN layer conv then state; then PLE convs; then index rings
  std::vector<TokenId> context_;
};

}  // namespace kv8
