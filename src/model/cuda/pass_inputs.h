// The inputs of a pass as kernels read them: ids, positions, slices, page tables. Written on the
// host and copied in one piece to addresses that never change, so that captured work can read it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "device/arena.h"
#include "device/device.h"
#include "model/executor.h"
#include "ops/cuda/gdn.h"
#include "ops/cuda/prompt_attention.h"
#include "ops/cuda/slots.h"

namespace kv8::cuda {

/// Sizes of a pass: all that its launches depend on. Rows and slices past the real ones are
/// padding.
struct PassShape {
  std::int32_t rows = 0;
  std::int32_t decode_rows = 0;  // come first; the others are of prompts
  std::int32_t slices = 0;
  std::int32_t prefill_slices = 0;
  std::int32_t prefill_rows = 0;  // most of a slice in prefill
  std::int32_t decode_slices = 0;
  std::int32_t rounds = 0;                // most rows of a slice in decode
  std::int32_t max_selection_blocks = 0;  // selection blocks that any row sees, at most
  bool padded = false;                    // to one of few shapes, which are worth capturing

  bool decode_only() const { return prefill_slices == 0; }
  auto operator<=>(const PassShape&) const = default;
};

/// Rows of prompts that attention takes at a time: whole groups.
struct PromptTile {
  std::int32_t first_row;
  std::int32_t rows;
  std::int32_t first_group;
  std::int32_t groups;
};

/// Rows up to the next power of two: how many a captured pass has.
std::int32_t PaddedRows(std::int64_t rows);

class PassInputs {
 public:
  /// Rows that a pass may have, padding included.
  static std::int64_t MaxRows(const ExecutorLimits& limits);
  /// Device bytes.
  static std::int64_t Plan(const ExecutorLimits& limits);
  static Result<PassInputs> Create(Device& device, const ExecutorLimits& limits,
                                   int selection_block_tokens);

  /// Describes the rows of `items`, those in decode first, and copies that to the device; `sources`
  /// may be empty. A pass of decode alone is padded to one of few shapes.
  Result<PassShape> Upload(DeviceStream& stream, std::span<const TokenId> ids,
                           std::span<const SlotRows> items, std::span<const std::int64_t> sources);
  /// One row of padding, in prefill and in decode: a pass over it touches nothing.
  Result<PassShape> UploadPadding(DeviceStream& stream);
  /// Describes a pass of decode over so many rows of padding, without a copy: what is captured for
  /// its shape before there are any. `rows` is a power of two.
  PassShape DescribePadding(std::int32_t rows, std::int32_t rounds);

  const std::int32_t* ids() const { return on_device_.ids; }
  RowsView rows(const PassShape& shape) const;
  PageTables tables() const { return {on_device_.tables, table_stride_}; }
  const RowGroup* prompt_groups() const { return on_device_.prompt_groups; }
  /// Rows of the pass's prompts, in tiles of at most kAttentionRows rows.
  std::vector<PromptTile> PromptTiles() const;
  SlicesView slices(const PassShape& shape) const;
  SlicesView prefill(const PassShape& shape) const;
  /// Slices of decode: row `round` of each.
  SlicesView decode(const PassShape& shape, std::int32_t round) const;
  /// Slices of decode that have more than one row.
  SlicesView verified(const PassShape& shape) const;
  /// From slots to the trail entries that keep their state after row `round`.
  const CopyPair* kept(std::int32_t round) const;
  /// From source rows to the pass's rows.
  const CopyPair* sources() const { return on_device_.sources; }

 private:
  struct Slices {
    std::int32_t *slot, *begin, *count;
  };
  struct Arrays {
    std::int32_t *ids, *sequence;
    std::int64_t* position;
    CopyPair* sources;
    RowGroup* prompt_groups;
    Slices all, prefill, verified;
    Slices decode;   // [rounds][slices]
    CopyPair* kept;  // [rounds][slices]
    std::int32_t* tables;
  };

  PassInputs() = default;
  static Slices TakeSlices(Arena& arena, std::int64_t count);
  static Arrays Take(Arena& arena, const ExecutorLimits& limits);
  static SlicesView View(const Slices& slices, std::int64_t first, std::int32_t count);
  void WriteRows(std::span<const TokenId> ids, std::span<const SlotRows> items, PassShape& shape);
  void WriteSlice(const SlotRows& item, std::int32_t begin, PassShape& shape);
  void WriteGroups(const SlotRows& item, std::int32_t begin);
  void WriteDecode(const SlotRows& item, std::int32_t begin, std::int32_t index);
  void Pad(std::int64_t rows, PassShape& shape);
  Result<void> Send(DeviceStream& stream, std::int32_t last_slot);

  std::int64_t table_stride_ = 0;
  std::int32_t max_slices_ = 0;
  std::int32_t drafts_ = 0;
  std::int32_t selection_block_tokens_ = 0;
  DeviceMemory device_memory_, host_memory_;
  Arrays on_device_{}, on_host_{};
  std::int32_t prompt_groups_ = 0;
  DeviceEvent sent_;
  bool in_flight_ = false;
};

}  // namespace kv8::cuda
