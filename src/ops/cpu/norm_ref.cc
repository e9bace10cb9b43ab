#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"

namespace kv8::reference {

void GroupedRmsNorm(const OpContext&, ConstMatrix x, std::span<const float> gain, int groups,
                    float eps, Matrix out) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const std::vector<double> y = GroupedNorm(x.row(t), gain, groups, eps);
    for (std::size_t i = 0; i < y.size(); ++i) out.row(t)[i] = static_cast<float>(y[i]);
  }
}

void ApplyHeadNormRope(const OpContext&, ConstMatrix x, int heads, std::int64_t head_stride,
                       const HeadNormRope& rope, std::span<const std::int64_t> positions,
                       Matrix out) {
  const std::size_t dim = rope.gain.size();
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (int h = 0; h < heads; ++h) {
      const std::span<const float> in{x.data + t * x.stride + h * head_stride, dim};
      std::vector<double> head = GroupedNorm(in, rope.gain, 1, rope.eps);
      Rotate(head, rope.inv_freq, positions[static_cast<std::size_t>(t)]);
      const auto to = out.row(t).subspan(static_cast<std::size_t>(h) * dim, dim);
      for (std::size_t d = 0; d < dim; ++d) to[d] = static_cast<float>(head[d]);
    }
  }
}

}  // namespace kv8::reference
