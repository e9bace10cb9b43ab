#include "kvcache/state_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kvcache/sequence_state.h"

namespace kv8 {
namespace {

StateLayout Layout() {
  StateLayout layout(/*eos=*/7);
  for (int i = 0; i < 2; ++i) {
    layout.Add(StateKind::kGdnConv, 6);
    layout.Add(StateKind::kGdnState, 10);
  }
  layout.Add(StateKind::kPleConv, 5);
  layout.Add(StateKind::kPleContext, 3);
  for (int i = 0; i < 3; ++i) layout.Add(StateKind::kIndexRing, 4);
  return layout;
}

TEST(StateLayout, ArraysFollowEachOther) {
  const StateLayout layout = Layout();
  std::int64_t offset = 0;
  for (const StateArray& array : layout.arrays()) {
    EXPECT_EQ(array.offset, offset);
    offset += array.bytes;
  }
  EXPECT_EQ(layout.bytes(), offset);
  EXPECT_EQ(layout.bytes(), 4 * (2 * 16 + 5 + 3 + 3 * 4));
  EXPECT_EQ(layout.Of(StateKind::kGdnState, 1).offset, 4 * (16 + 6));
  EXPECT_EQ(layout.Layers(StateKind::kIndexRing), 3);
}

TEST(StateLayout, RecurrentPartIsTheBeginning) {
  const StateLayout layout = Layout(), recurrent = layout.Recurrent();
  EXPECT_EQ(recurrent.Layers(StateKind::kIndexRing), 0);
  EXPECT_EQ(recurrent.bytes(), layout.Of(StateKind::kIndexRing, 0).offset);
  for (std::size_t i = 0; i < recurrent.arrays().size(); ++i) {
    EXPECT_EQ(recurrent.arrays()[i].kind, layout.arrays()[i].kind);
    EXPECT_EQ(recurrent.arrays()[i].offset, layout.arrays()[i].offset);
  }
}

TEST(SequenceState, StartsAndResetsEmpty) {
  const StateLayout layout = Layout();
  SequenceState state(layout);
  std::ranges::fill(state.Floats(StateKind::kIndexRing, 2), 1.0f);
  state.Context(0)[1] = 3;
  state.Reset();
  EXPECT_EQ(state.Floats(StateKind::kIndexRing, 2)[3], 0.0f);
  for (const TokenId id : state.Context(0)) EXPECT_EQ(id, 7);
}

TEST(SequenceState, GoesBackWithoutTouchingItsRings) {
  const StateLayout layout = Layout(), recurrent = layout.Recurrent();
  SequenceState state(layout), before(recurrent);
  std::ranges::fill(before.Floats(StateKind::kGdnState, 1), 2.0f);
  std::ranges::fill(state.Floats(StateKind::kGdnState, 1), 5.0f);
  std::ranges::fill(state.Floats(StateKind::kIndexRing, 0), 6.0f);
  state.CopyIn(before.packed());
  EXPECT_EQ(state.Floats(StateKind::kGdnState, 1)[9], 2.0f);
  EXPECT_EQ(state.Floats(StateKind::kIndexRing, 0)[0], 6.0f);
}

TEST(SequenceState, APackedStateComesBack) {
  const StateLayout layout = Layout();
  SequenceState state(layout), copy(layout);
  float value = 0;
  for (const StateKind kind : {StateKind::kGdnConv, StateKind::kGdnState}) {
    for (float& element : state.Floats(kind, 1)) element = ++value;
  }
  state.Context(0)[0] = 9;
  copy.CopyIn(state.packed());
  EXPECT_TRUE(std::ranges::equal(copy.packed(), state.packed()));
  EXPECT_EQ(copy.Context(0)[0], 9);
}

}  // namespace
}  // namespace kv8
