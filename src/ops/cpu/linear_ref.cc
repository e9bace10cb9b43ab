#include "ops/cpu/reference.h"
#include "ops/cpu/reference_math.h"

namespace kv8::reference {

void Linear(const OpContext&, ConstMatrix x, std::span<const LinearPart> parts) {
  for (const LinearPart& part : parts) {
    for (std::int64_t t = 0; t < x.rows; ++t) {
      for (std::int64_t n = 0; n < part.weight.rows; ++n) {
        part.out.row(t)[static_cast<std::size_t>(n)] =
            static_cast<float>(DotRow(x.row(t), part.weight, n));
      }
    }
  }
}

}  // namespace kv8::reference
