#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "checkpoint/read_floats.h"
#include "synth/quantise.h"
#include "synth/values.h"

namespace kv8 {

Result<void> CheckpointValues::Read(const ModelTensor& tensor, std::int64_t begin,
                                    std::span<float> out) const {
  KV8_ASSIGN_OR_RETURN(const TensorView whole, files_.Get(tensor.name, tensor.shape));
  const auto place = [&] { return TensorPlace(files_.FileOf(tensor.name).string(), tensor.name); };
  if (!IsPlainFloat(whole.dtype)) {
    return Error{Code::kUnsupported,
                 fmt::format("has type {}; BF16, F16 and F32 can be quantised", Name(whole.dtype)),
                 place(), "name the checkpoint that this one was quantised from"};
  }
  const TensorView part{whole.data + begin * SizeOf(whole.dtype), whole.dtype, {std::ssize(out)}};
  const std::vector<float> values = ReadFloats(part);
  const auto bad = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
  if (bad != values.end()) {
    return Error{Code::kCorrupt,
                 fmt::format("element {} is {}", begin + (bad - values.begin()), *bad), place(),
                 "download the file again"};
  }
  std::ranges::copy(values, out.begin());
  return {};
}

Result<float> CheckpointValues::Bound(const ModelTensor& tensor) const {
  constexpr std::int64_t kChunk = 1 << 20;
  float bound = 0;
  std::vector<float> values;
  for (std::int64_t begin = 0; begin < tensor.elements(); begin += kChunk) {
    values.resize(static_cast<std::size_t>(std::min(kChunk, tensor.elements() - begin)));
    KV8_RETURN_IF_ERROR(Read(tensor, begin, values));
    bound = std::max(bound, Magnitude(ConstMatrix(values.data(), 1, std::ssize(values))));
  }
  return bound;
}

}  // namespace kv8
