#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "family/tensor_names.h"
#include "numeric/half.h"
#include "synth/plain_codes.h"
#include "synth/tensor_group.h"

namespace kv8 {
namespace {

constexpr std::int64_t kPieceElements = 1 << 20;

}  // namespace

Result<std::vector<std::uint16_t>> PlainCodes(const ModelTensor& tensor, std::int64_t begin,
                                              std::span<const float> values, WeightFormat format) {
  std::vector<std::uint16_t> codes;
  codes.reserve(values.size());
  for (const float value : values) {
    codes.push_back(format == WeightFormat::kFp16 ? EncodeFp16(value) : EncodeBf16(value));
    const float stored =
        format == WeightFormat::kFp16 ? DecodeFp16(codes.back()) : DecodeBf16(codes.back());
    if (std::isfinite(stored)) continue;
    return Error{Code::kUnsupported,
                 fmt::format("element {} is {}, which {} cannot hold",
                             begin + std::ssize(codes) - 1, value, Name(format)),
                 tensor.name, "choose --weights bf16"};
  }
  return codes;
}

TensorGroup PlainGroup(const ModelTensor& tensor, WeightFormat format, const ValueSource& values) {
  TensorGroup out{.canonical_name = tensor.name, .weights = tensor.elements()};
  out.tensors.push_back({ReleasedName(tensor.name), DTypeOf(format), tensor.shape});
  out.pieces = CeilDiv(tensor.elements(), kPieceElements);
  out.fill = [tensor, format, &values](std::int64_t piece,
                                       const GroupWriter& file) -> Result<void> {
    const std::int64_t begin = piece * kPieceElements;
    std::vector<float> part(
        static_cast<std::size_t>(std::min(kPieceElements, tensor.elements() - begin)));
    KV8_RETURN_IF_ERROR(values.Read(tensor, begin, part));
    KV8_ASSIGN_OR_RETURN(const auto codes, PlainCodes(tensor, begin, part, format));
    return file.Write(0, begin * SizeOf(DTypeOf(format)), codes);
  };
  return out;
}

TensorGroup HashGroup(const HashBuffer& buffer) {
  TensorGroup out{.canonical_name = buffer.name};
  out.tensors.push_back({ReleasedName(buffer.name), DType::kI64, {std::ssize(buffer.values)}});
  out.fill = [values = buffer.values](std::int64_t, const GroupWriter& file) {
    return file.Write(0, 0, values);
  };
  return out;
}

}  // namespace kv8
