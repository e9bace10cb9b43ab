// Stored tensors that lie in one file, and the work that fills them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "kv8/error.h"
#include "synth/formats.h"
#include "synth/values.h"

namespace kv8 {

/// Writes into the tensors of one group.
class GroupWriter {
 public:
  /// `first` is the place of the group's first tensor in the file.
  GroupWriter(const SafetensorsWriter& file, std::size_t first) : file_(file), first_(first) {}

  /// Elements of tensor `index` of the group, from byte `offset` of it on.
  template <class T>
  Result<void> Write(std::size_t index, std::int64_t offset, const std::vector<T>& values) const {
    return file_.Write(first_ + index, offset, std::as_bytes(std::span(values)));
  }

 private:
  const SafetensorsWriter& file_;
  std::size_t first_;
};

struct TensorGroup {
  std::string canonical_name;         // one of the model's; says what part of it this is
  std::int64_t weights = 0;           // elements of the model in it
  std::vector<StoredTensor> tensors;  // by the names of the released checkpoint
  std::int64_t pieces = 1;            // of about the same size; threads fill them in any order
  std::int64_t hole_bytes = 0;        // of the tensors, what no piece writes
  std::function<Result<void>(std::int64_t piece, const GroupWriter& out)> fill;

  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const StoredTensor& tensor : tensors) sum += tensor.bytes();
    return sum;
  }
};

/// `values` must outlive a group, here and below. A plain tensor; one piece per million elements.
TensorGroup PlainGroup(const ModelTensor& tensor, WeightFormat format, const ValueSource& values);

TensorGroup HashGroup(const HashBuffer& buffer);

/// One expert: gate, up and down in a quantised format, each a matrix with a name of its own.
/// `gate_up` and `down` are the stacks.
TensorGroup ExpertGroup(const ModelTensor& gate_up, const ModelTensor& down, std::int64_t expert,
                        const StoredFormat& stored, const ValueSource& values);

/// Whole tables: every part, and the scale that all parts of a layer's table share. With `sparse`,
/// the first kSparseRows rows of each part are written and the others are a hole.
/// Errors: those of ValueSource::Bound.
Result<std::vector<TensorGroup>> TableGroups(const std::vector<ModelTensor>& tensors,
                                             WeightFormat format, bool sparse,
                                             const ValueSource& values);
inline constexpr std::int64_t kSparseRows = 1024;

}  // namespace kv8
