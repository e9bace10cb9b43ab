#include "kvcache/state_layout.h"

#include <cassert>

#include "kvcache/layout.h"

namespace kv8 {

void StateLayout::Add(StateKind kind, std::int64_t elements) {
  constexpr std::int64_t kElementBytes = 4;
  assert(kind == StateKind::kIndexRing || Layers(StateKind::kIndexRing) == 0);
  const std::int64_t bytes = elements * kElementBytes;
  const int layer = Layers(kind);
  by_kind_[static_cast<std::size_t>(kind)].push_back(arrays_.size());
  arrays_.push_back({kind, layer, bytes, bytes_});
  bytes_ += bytes;
}

StateLayout StateLayout::Recurrent() const {
  StateLayout recurrent(eos_);
  for (const StateArray& array : arrays_) {
    if (array.kind != StateKind::kIndexRing) recurrent.Add(array.kind, array.bytes / 4);
  }
  return recurrent;
}

StateLayout StateLayout::For(const ModelSpec& spec, bool with_draft) {
  const GdnConfig& gdn = spec.gdn;
  StateLayout layout(spec.eos.value_or(0));
  for (int i = spec.GdnLayers(); i > 0; --i) {
    layout.Add(StateKind::kGdnConv, (gdn.conv_kernel - 1) * gdn.conv_channels());
    layout.Add(StateKind::kGdnState, std::int64_t{gdn.value_heads} * gdn.key_dim * gdn.value_dim);
  }
  if (spec.ple) {
    for (std::size_t i = spec.ple->layers.size(); i > 0; --i) {
      layout.Add(StateKind::kPleConv, spec.ple->conv_rows() * spec.stream_width());
      layout.Add(StateKind::kPleContext, spec.ple->ngram_size - 1);
    }
  }
  for (int i = spec.KvLayers(with_draft); i > 0; --i) {
    layout.Add(StateKind::kIndexRing, kIndexRingTokens * spec.qsa.index_dim);
  }
  return layout;
}

}  // namespace kv8
