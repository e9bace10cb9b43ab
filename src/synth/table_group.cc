#include <algorithm>
#include <map>
#include <string_view>

#include "base/checked.h"
#include "family/tensor_names.h"
#include "numeric/half.h"
#include "synth/plain_codes.h"
#include "synth/quantise.h"
#include "synth/tensor_group.h"

namespace kv8 {
namespace {

constexpr std::int64_t kPieceRows = 4096;

/// "....ngram_embedding."
std::string TableOf(const ModelTensor& part) {
  constexpr std::string_view kPart = "shard_";
  return part.name.substr(0, part.name.rfind(kPart));
}

/// What no magnitude of any part of a table is above, by table.
Result<std::map<std::string, float>> BoundsOf(const std::vector<ModelTensor>& tensors,
                                              const ValueSource& values) {
  std::map<std::string, float> bounds;
  for (const ModelTensor& tensor : tensors) {
    if (tensor.role != TensorRole::kTable) continue;
    KV8_ASSIGN_OR_RETURN(const float bound, values.Bound(tensor));
    float& largest = bounds[TableOf(tensor)];
    largest = std::max(largest, bound);
  }
  return bounds;
}

std::vector<StoredTensor> StoredAs(const ModelTensor& part, WeightFormat format) {
  const std::string name = ReleasedName(part.name);
  const std::int64_t rows = part.shape[0], cols = part.shape[1];
  if (format == WeightFormat::kFp8) return {{name, DType::kF8E4M3, part.shape}};
  if (format != WeightFormat::kNvfp4) return {{name, DTypeOf(format), part.shape}};
  return {{name, DType::kU8, {rows, cols / 2}},
          {name + "_scale", DType::kF8E4M3, {rows, cols / kNvfp4Group}}};
}

/// The tensors of `out` from row `row` on. `bound` is the table's.
Result<void> WriteRows(const ModelTensor& part, WeightFormat format, float bound, std::int64_t row,
                       ConstMatrix rows, const GroupWriter& out) {
  if (format == WeightFormat::kFp8) {
    return out.Write(0, row * rows.cols, QuantiseFp8(rows, Fp8TensorScale(bound)));
  }
  if (format == WeightFormat::kNvfp4) {
    const Nvfp4Matrix q = QuantiseNvfp4(rows, Nvfp4GlobalScale(bound));
    KV8_RETURN_IF_ERROR(out.Write(0, row * rows.cols / 2, q.codes));
    return out.Write(1, row * rows.cols / kNvfp4Group, q.scales);
  }
  const std::span<const float> values(rows.data, static_cast<std::size_t>(rows.rows * rows.cols));
  KV8_ASSIGN_OR_RETURN(const auto codes, PlainCodes(part, row * rows.cols, values, format));
  return out.Write(0, row * rows.cols * SizeOf(DTypeOf(format)), codes);
}

TensorGroup PartGroup(const ModelTensor& part, WeightFormat format, float bound, bool sparse,
                      const ValueSource& values) {
  const std::int64_t all = part.shape[0], cols = part.shape[1];
  const std::int64_t written = sparse ? std::min(all, kSparseRows) : all;
  TensorGroup out{.canonical_name = part.name, .weights = part.elements()};
  out.tensors = StoredAs(part, format);
  out.pieces = CeilDiv(written, kPieceRows);
  out.hole_bytes = out.bytes() / all * (all - written);
  out.fill = [=, &values](std::int64_t piece, const GroupWriter& file) -> Result<void> {
    const std::int64_t row = piece * kPieceRows, rows = std::min(kPieceRows, written - row);
    std::vector<float> chunk(static_cast<std::size_t>(rows * cols));
    KV8_RETURN_IF_ERROR(values.Read(part, row * cols, chunk));
    return WriteRows(part, format, bound, row, ConstMatrix(chunk.data(), rows, cols), file);
  };
  return out;
}

/// The scale that all parts of a table share.
TensorGroup ScaleGroup(const std::string& table, WeightFormat format, float bound) {
  TensorGroup out{.canonical_name = table + "weight_scale"};
  const std::string name = ReleasedName(out.canonical_name);
  if (format == WeightFormat::kFp8) {
    out.tensors = {{name, DType::kBF16, {1}}};
    out.fill = [bound](std::int64_t, const GroupWriter& file) {
      return file.Write(0, 0, std::vector{Fp8TensorScale(bound)});
    };
  } else {
    out.tensors = {{name + "_2", DType::kF32, {}}};
    out.fill = [bound](std::int64_t, const GroupWriter& file) {
      return file.Write(0, 0, std::vector{Nvfp4GlobalScale(bound)});
    };
  }
  return out;
}

}  // namespace

Result<std::vector<TensorGroup>> TableGroups(const std::vector<ModelTensor>& tensors,
                                             WeightFormat format, bool sparse,
                                             const ValueSource& values) {
  std::map<std::string, float> bounds;
  if (!IsPlain(format)) {
    KV8_ASSIGN_OR_RETURN(bounds, BoundsOf(tensors, values));
  }
  std::vector<TensorGroup> groups;
  for (const auto& [table, bound] : bounds) groups.push_back(ScaleGroup(table, format, bound));
  for (const ModelTensor& part : tensors) {
    if (part.role != TensorRole::kTable) continue;
    const float bound = IsPlain(format) ? 0 : bounds[TableOf(part)];
    groups.push_back(PartGroup(part, format, bound, sparse, values));
  }
  return groups;
}

}  // namespace kv8
