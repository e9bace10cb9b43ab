#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/checked.h"
#include "family/tensor_names.h"
#include "numeric/e4m3.h"
#include "synth/quantise.h"
#include "synth/tensor_group.h"

namespace kv8 {
namespace {

/// Of activations: published files carry one, and nothing here measures it.
constexpr float kInputScale = 1 / kE4M3Max;

/// One projection of the expert, and what of a stack it is.
struct Projection {
  std::string name;  // released, without a leaf
  ModelTensor stack;
  std::int64_t begin = 0;  // element of the stack
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

std::array<Projection, 3> ProjectionsOf(const ModelTensor& gate_up, const ModelTensor& down,
                                        std::int64_t expert) {
  const std::int64_t width = gate_up.shape[1] / 2, hidden = gate_up.shape[2];
  const std::int64_t size = width * hidden;
  const std::string stack = ReleasedName(down.name);
  const auto name = [&](std::string_view projection) {
    return fmt::format("{}{}.{}", stack.substr(0, stack.rfind('.') + 1), expert, projection);
  };
  return {Projection{name("gate_proj"), gate_up, expert * 2 * size, width, hidden},
          Projection{name("up_proj"), gate_up, (expert * 2 + 1) * size, width, hidden},
          Projection{name("down_proj"), down, expert * size, hidden, width}};
}

std::vector<StoredTensor> StoredAs(const Projection& p, const StoredFormat& stored) {
  const std::int64_t rows = p.rows, cols = p.cols;
  const auto name = [&](const char* leaf) { return fmt::format("{}.{}", p.name, leaf); };
  if (stored.format == WeightFormat::kFp8) {
    return {
        {name("weight"), DType::kF8E4M3, {rows, cols}},
        {name("weight_scale_inv"),
         DType::kBF16,
         {CeilDiv<std::int64_t>(rows, kFp8BlockSide), CeilDiv<std::int64_t>(cols, kFp8BlockSide)}}};
  }
  if (stored.format == WeightFormat::kNvfp4) {
    return {{name("weight"), DType::kU8, {rows, cols / 2}},
            {name("weight_scale"), DType::kF8E4M3, {rows, cols / kNvfp4Group}},
            {name("weight_scale_2"), DType::kF32, {}},
            {name("input_scale"), DType::kF32, {}}};
  }
  std::vector<StoredTensor> out = {
      {name("weight_packed"), DType::kI32, {rows, cols / 8}},
      {name("weight_scale"), DType::kBF16, {rows, cols / stored.group}},
      {name("weight_shape"), DType::kI64, {2}}};
  if (!stored.symmetric) {
    out.push_back({name("weight_zero_point"), DType::kI32, {rows / 8, cols / stored.group}});
  }
  return out;
}

/// Writes what StoredAs lists, from tensor `at` of the group on.
Result<void> WriteProjection(ConstMatrix w, const StoredFormat& stored, float global_scale,
                             std::size_t at, const GroupWriter& out) {
  if (stored.format == WeightFormat::kFp8) {
    const Fp8Matrix q = QuantiseFp8(w);
    KV8_RETURN_IF_ERROR(out.Write(at, 0, q.codes));
    return out.Write(at + 1, 0, q.scales);
  }
  if (stored.format == WeightFormat::kNvfp4) {
    const Nvfp4Matrix q = QuantiseNvfp4(w, global_scale);
    KV8_RETURN_IF_ERROR(out.Write(at, 0, q.codes));
    KV8_RETURN_IF_ERROR(out.Write(at + 1, 0, q.scales));
    KV8_RETURN_IF_ERROR(out.Write(at + 2, 0, std::vector{global_scale}));
    return out.Write(at + 3, 0, std::vector{kInputScale});
  }
  const Int4Matrix q = QuantiseInt4(w, stored.group, stored.symmetric);
  KV8_RETURN_IF_ERROR(out.Write(at, 0, q.codes));
  KV8_RETURN_IF_ERROR(out.Write(at + 1, 0, q.scales));
  KV8_RETURN_IF_ERROR(out.Write(at + 2, 0, std::vector{w.rows, w.cols}));
  return stored.symmetric ? Result<void>() : out.Write(at + 3, 0, q.zero_points);
}

Result<void> FillExpert(const std::array<Projection, 3>& projections, const StoredFormat& stored,
                        const ValueSource& values, const GroupWriter& out) {
  std::array<std::vector<float>, 3> weights;
  std::array<float, 3> magnitudes{};
  for (std::size_t i = 0; i < projections.size(); ++i) {
    const Projection& p = projections[i];
    weights[i].resize(static_cast<std::size_t>(p.rows * p.cols));
    KV8_RETURN_IF_ERROR(values.Read(p.stack, p.begin, weights[i]));
    magnitudes[i] = Magnitude(ConstMatrix(weights[i].data(), p.rows, p.cols));
  }
  // Engines run gate and up as one product, so publishers give them one second scale.
  magnitudes[0] = magnitudes[1] = std::max(magnitudes[0], magnitudes[1]);
  const std::size_t tensors = StoredAs(projections[0], stored).size();
  for (std::size_t i = 0; i < projections.size(); ++i) {
    const ConstMatrix w(weights[i].data(), projections[i].rows, projections[i].cols);
    KV8_RETURN_IF_ERROR(
        WriteProjection(w, stored, Nvfp4GlobalScale(magnitudes[i]), i * tensors, out));
  }
  return {};
}

}  // namespace

TensorGroup ExpertGroup(const ModelTensor& gate_up, const ModelTensor& down, std::int64_t expert,
                        const StoredFormat& stored, const ValueSource& values) {
  const auto projections = ProjectionsOf(gate_up, down, expert);
  TensorGroup out{.canonical_name = down.name};
  for (const Projection& p : projections) {
    out.weights += p.rows * p.cols;
    for (StoredTensor& tensor : StoredAs(p, stored)) out.tensors.push_back(std::move(tensor));
  }
  out.fill = [projections, stored, &values](std::int64_t, const GroupWriter& file) {
    return FillExpert(projections, stored, values, file);
  };
  return out;
}

}  // namespace kv8
