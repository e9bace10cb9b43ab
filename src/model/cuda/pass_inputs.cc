#include "model/cuda/pass_inputs.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "model/cuda/device_workspace.h"

namespace kv8::cuda {
namespace {

/// Captured passes have as many slices as rows.
std::int64_t MaxSlices(const ExecutorLimits& limits) {
  return PaddedRows(std::int64_t{limits.slots} * (1 + limits.drafts));
}

}  // namespace

std::int32_t PaddedRows(std::int64_t rows) {
  return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
}

std::int64_t PassInputs::MaxRows(const ExecutorLimits& limits) {
  return std::max<std::int64_t>(limits.max_rows, MaxSlices(limits));
}

PassInputs::Slices PassInputs::TakeSlices(Arena& arena, std::int64_t count) {
  return {arena.Take<std::int32_t>(count), arena.Take<std::int32_t>(count),
          arena.Take<std::int32_t>(count)};
}

PassInputs::Arrays PassInputs::Take(Arena& arena, const ExecutorLimits& limits) {
  const std::int64_t rows = MaxRows(limits), slices = MaxSlices(limits);
  const std::int64_t rounds = 1 + limits.drafts;
  return {.ids = arena.Take<std::int32_t>(rows),
          .sequence = arena.Take<std::int32_t>(rows),
          .position = arena.Take<std::int64_t>(rows),
          .sources = arena.Take<CopyPair>(rows),
          .prompt_groups = arena.Take<RowGroup>(rows),
          .all = TakeSlices(arena, slices),
          .prefill = TakeSlices(arena, slices),
          .verified = TakeSlices(arena, slices),
          .decode = TakeSlices(arena, rounds * slices),
          .kept = arena.Take<CopyPair>(rounds * slices),
          // The last: only the lines in use are copied.
          .tables = arena.Take<std::int32_t>(limits.slots * limits.sequence_pages)};
}

std::int64_t PassInputs::Plan(const ExecutorLimits& limits) {
  Arena arena;
  Take(arena, limits);
  return arena.bytes();
}

Result<PassInputs> PassInputs::Create(Device& device, const ExecutorLimits& limits,
                                      int selection_block_tokens) {
  PassInputs inputs;
  inputs.table_stride_ = limits.sequence_pages;
  inputs.max_slices_ = static_cast<std::int32_t>(MaxSlices(limits));
  inputs.drafts_ = limits.drafts;
  inputs.selection_block_tokens_ = selection_block_tokens;
  KV8_ASSIGN_OR_RETURN(inputs.device_memory_, device.Allocate(Plan(limits), "a pass's rows"));
  KV8_ASSIGN_OR_RETURN(inputs.host_memory_, device.AllocateHost(Plan(limits), "a pass's rows"));
  Arena on_device(inputs.device_memory_.data()), on_host(inputs.host_memory_.data());
  inputs.on_device_ = Take(on_device, limits);
  inputs.on_host_ = Take(on_host, limits);
  KV8_ASSIGN_OR_RETURN(inputs.sent_, device.CreateEvent());
  return inputs;
}

Result<PassShape> PassInputs::Upload(DeviceStream& stream, std::span<const TokenId> ids,
                                     std::span<const SlotRows> items,
                                     std::span<const std::int64_t> sources) {
  if (in_flight_) KV8_RETURN_IF_ERROR(sent_.Synchronize());
  PassShape shape;
  WriteRows(ids, items, shape);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    on_host_.sources[i] = {static_cast<std::int32_t>(sources[i]), static_cast<std::int32_t>(i)};
  }
  std::int32_t last_slot = 0;
  for (const SlotRows& item : items) last_slot = std::max(last_slot, item.slot);
  KV8_RETURN_IF_ERROR(Send(stream, last_slot));
  return shape;
}

Result<PassShape> PassInputs::UploadPadding(DeviceStream& stream) {
  on_host_.prefill.slot[0] = -1;
  on_host_.prompt_groups[0] = {0, 1};
  prompt_groups_ = 1;
  PassShape shape{.prefill_slices = 1, .prefill_rows = 1, .rounds = 1 + drafts_};
  Pad(1, shape);
  KV8_RETURN_IF_ERROR(Send(stream, 0));
  return shape;
}

PassShape PassInputs::DescribePadding(std::int32_t rows, std::int32_t rounds) {
  prompt_groups_ = 0;
  PassShape shape{.rounds = rounds};
  Pad(rows, shape);
  return shape;
}

void PassInputs::WriteRows(std::span<const TokenId> ids, std::span<const SlotRows> items,
                           PassShape& shape) {
  std::ranges::copy(ids, on_host_.ids);
  prompt_groups_ = 0;
  std::int32_t row = 0;
  for (const SlotRows& item : items) {
    WriteSlice(item, row, shape);
    for (std::int64_t i = 0; i < item.rows; ++i, ++row) {
      on_host_.sequence[row] = item.slot;
      on_host_.position[row] = item.first_position + i;
    }
    std::ranges::transform(item.pages, on_host_.tables + item.slot * table_stride_,
                           [](PageId page) { return static_cast<std::int32_t>(page); });
    const std::int64_t complete = (item.first_position + item.rows) / selection_block_tokens_;
    shape.max_selection_blocks =
        std::max(shape.max_selection_blocks, static_cast<std::int32_t>(complete));
  }
  shape.rows = row;
  if (shape.decode_only() && row <= max_slices_) Pad(row, shape);
}

void PassInputs::WriteSlice(const SlotRows& item, std::int32_t begin, PassShape& shape) {
  const auto rows = static_cast<std::int32_t>(item.rows);
  const auto write = [&](const Slices& to, std::int32_t at, bool real) {
    to.slot[at] = real ? item.slot : -1;
    to.begin[at] = begin;
    to.count[at] = rows;
  };
  write(on_host_.all, shape.slices++, true);
  if (item.phase == Phase::kPrefill) {
    write(on_host_.prefill, shape.prefill_slices++, true);
    shape.prefill_rows = std::max(shape.prefill_rows, rows);
    WriteGroups(item, begin);
    return;
  }
  assert(shape.prefill_slices == 0);
  shape.decode_rows += rows;
  write(on_host_.verified, shape.decode_slices, rows > 1);
  WriteDecode(item, begin, shape.decode_slices++);
  shape.rounds = std::max(shape.rounds, rows);
}

/// Aligned in the sequence, so that a row has the same group however its prompt is cut.
void PassInputs::WriteGroups(const SlotRows& item, std::int32_t begin) {
  assert(item.first_position % kPromptGroupRows == 0);
  const auto rows = static_cast<std::int32_t>(item.rows);
  for (std::int32_t i = 0; i < rows; i += kPromptGroupRows) {
    on_host_.prompt_groups[prompt_groups_++] = {begin + i, std::min(kPromptGroupRows, rows - i)};
  }
}

std::vector<PromptTile> PassInputs::PromptTiles() const {
  std::vector<PromptTile> tiles;
  for (std::int32_t i = 0; i < prompt_groups_; ++i) {
    const RowGroup& group = on_host_.prompt_groups[i];
    if (tiles.empty() || tiles.back().rows + group.count > kAttentionRows) {
      tiles.push_back({group.begin, 0, i, 0});
    }
    tiles.back().rows += group.count;
    ++tiles.back().groups;
  }
  return tiles;
}

void PassInputs::WriteDecode(const SlotRows& item, std::int32_t begin, std::int32_t index) {
  const auto rows = static_cast<std::int32_t>(std::min<std::int64_t>(item.rows, 1 + drafts_));
  for (std::int32_t round = 0; round <= drafts_; ++round) {
    const std::int32_t at = round * max_slices_ + index;
    on_host_.decode.slot[at] = round < rows ? item.slot : -1;
    on_host_.decode.begin[at] = begin + round;
    on_host_.decode.count[at] = 1;
    on_host_.kept[at] = {item.slot, round + 1 < rows ? item.slot * drafts_ + round : -1};
  }
}

/// Rows and slices of nothing, up to a captured shape.
void PassInputs::Pad(std::int64_t rows, PassShape& shape) {
  const std::int32_t padded = PaddedRows(rows);
  for (std::int32_t row = shape.rows; row < padded; ++row) {
    on_host_.ids[row] = 0;
    on_host_.sequence[row] = -1;
    on_host_.position[row] = 0;
  }
  for (std::int32_t i = shape.slices; i < padded; ++i) {
    on_host_.all.slot[i] = -1;
    on_host_.verified.slot[i] = -1;
    for (std::int32_t round = 0; round <= drafts_; ++round) {
      on_host_.decode.slot[round * max_slices_ + i] = -1;
      on_host_.kept[round * max_slices_ + i] = {0, -1};
    }
  }
  shape.rows = shape.decode_rows = shape.slices = shape.decode_slices = padded;
  shape.padded = true;
}

Result<void> PassInputs::Send(DeviceStream& stream, std::int32_t last_slot) {
  const auto before_tables =
      reinterpret_cast<const std::byte*>(on_host_.tables) - host_memory_.data();
  const std::int64_t tables =
      (last_slot + 1) * table_stride_ * static_cast<std::int64_t>(sizeof(std::int32_t));
  KV8_RETURN_IF_ERROR(
      stream.Copy(device_memory_.data(), host_memory_.data(), before_tables + tables));
  in_flight_ = true;
  return stream.Record(sent_);
}

RowsView PassInputs::rows(const PassShape& shape) const {
  return {on_device_.sequence, on_device_.position, shape.rows};
}

SlicesView PassInputs::View(const Slices& slices, std::int64_t first, std::int32_t count) {
  return {slices.slot + first, slices.begin + first, slices.count + first, count};
}

SlicesView PassInputs::slices(const PassShape& shape) const {
  return View(on_device_.all, 0, shape.slices);
}

SlicesView PassInputs::prefill(const PassShape& shape) const {
  return View(on_device_.prefill, 0, shape.prefill_slices);
}

SlicesView PassInputs::decode(const PassShape& shape, std::int32_t round) const {
  return View(on_device_.decode, std::int64_t{round} * max_slices_, shape.decode_slices);
}

SlicesView PassInputs::verified(const PassShape& shape) const {
  return View(on_device_.verified, 0, shape.decode_slices);
}

const CopyPair* PassInputs::kept(std::int32_t round) const {
  return on_device_.kept + std::int64_t{round} * max_slices_;
}

}  // namespace kv8::cuda
