#include "kvcache/sequence_state.h"

#include <algorithm>

#include "kvcache/layout.h"

namespace kv8 {
namespace {

template <class Vector>
auto Piece(Vector& all, std::int64_t begin, std::int64_t count) {
  return std::span(all).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

}  // namespace

std::int64_t StateLayout::ring_floats() const {
  return kIndexRingTokens * index_dim;
}

std::int64_t StateLayout::recurrent_floats() const {
  return gdn_layers * (gdn_conv_floats() + gdn_state_floats()) + ple_layers * ple_conv_floats();
}

std::int64_t StateLayout::floats() const {
  return recurrent_floats() + index_rings * ring_floats();
}

std::int64_t StateLayout::bytes() const {
  return floats() * static_cast<std::int64_t>(sizeof(float)) +
         ple_layers * ple_context * static_cast<std::int64_t>(sizeof(TokenId));
}

SequenceState::SequenceState(const StateLayout& layout)
    : layout_(layout),
      floats_(static_cast<std::size_t>(layout.floats()), 0.0f),
      context_(static_cast<std::size_t>(layout.ple_layers * layout.ple_context), layout.eos) {}

void SequenceState::Reset() {
  std::fill(floats_.begin(), floats_.end(), 0.0f);
  std::fill(context_.begin(), context_.end(), layout_.eos);
}

void SequenceState::CopyRecurrentFrom(const SequenceState& other) {
  std::copy_n(other.floats_.begin(), layout_.recurrent_floats(), floats_.begin());
  std::copy(other.context_.begin(), other.context_.end(), context_.begin());
}

void SequenceState::CopyOut(std::span<std::byte> to) const {
  const std::span floats(floats_);
  const auto recurrent = static_cast<std::size_t>(layout_.recurrent_floats());
  auto next = std::ranges::copy(std::as_bytes(floats.first(recurrent)), to.begin()).out;
  next = std::ranges::copy(std::as_bytes(std::span(context_)), next).out;
  std::ranges::copy(std::as_bytes(floats.subspan(recurrent)), next);
}

void SequenceState::CopyIn(std::span<const std::byte> from) {
  const auto take = [&from](std::span<std::byte> to) {
    std::ranges::copy(from.first(to.size()), to.begin());
    from = from.subspan(to.size());
  };
  const std::span floats(floats_);
  const auto recurrent = static_cast<std::size_t>(layout_.recurrent_floats());
  take(std::as_writable_bytes(floats.first(recurrent)));
  take(std::as_writable_bytes(std::span(context_)));
  take(std::as_writable_bytes(floats.subspan(recurrent)));
}

std::span<float> SequenceState::GdnConv(int gdn_layer) {
  const std::int64_t per_layer = layout_.gdn_conv_floats() + layout_.gdn_state_floats();
  return Piece(floats_, gdn_layer * per_layer, layout_.gdn_conv_floats());
}

std::span<float> SequenceState::GdnState(int gdn_layer) {
  const std::int64_t per_layer = layout_.gdn_conv_floats() + layout_.gdn_state_floats();
  return Piece(floats_, gdn_layer * per_layer + layout_.gdn_conv_floats(),
               layout_.gdn_state_floats());
}

std::span<float> SequenceState::PleConv(int ple_layer) {
  const std::int64_t begin =
      layout_.gdn_layers * (layout_.gdn_conv_floats() + layout_.gdn_state_floats());
  return Piece(floats_, begin + ple_layer * layout_.ple_conv_floats(), layout_.ple_conv_floats());
}

std::span<TokenId> SequenceState::PleContext(int ple_layer) {
  return Piece(context_, ple_layer * layout_.ple_context, layout_.ple_context);
}

std::span<float> SequenceState::IndexRing(int qsa_layer) {
  return Piece(floats_, layout_.recurrent_floats() + qsa_layer * layout_.ring_floats(),
               layout_.ring_floats());
}

}  // namespace kv8
