#include "ops/linear.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "ops/cpu/product.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/linear_simd.cc"
#include "ops/cpu/simd_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "ops/cpu/linear_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

// Up to this many rows, transposing the weights again for each one beats packing them.
inline constexpr std::int64_t kUnpackedRows = 2;

template <class Element>
void PanelProduct(const Product& product, std::int64_t panel, std::int64_t row_begin,
                  std::int64_t row_end) {
  const std::int64_t k_count = product.weight.cols;
  const std::int64_t first = panel * kPanel;
  const auto cols = static_cast<int>(std::min(kPanel, product.weight.rows - first));
  const std::byte* base = product.weight.data + first * k_count * Element::kBytes;
  if (product.x.rows <= kUnpackedRows) {
    for (std::int64_t t = row_begin; t < row_end; ++t) {
      RowTimesPanel<Element>(product.x.row(t).data(), base, k_count, cols,
                             product.out.row(t).data() + first);
    }
    return;
  }
  float* packed = Scratch(ScratchSlot::kLinearPanel, k_count * kPanel);
  PackPanel<Element>(base, k_count, cols, packed);
  RowsTimesPacked(packed, k_count, product.x.Rows(row_begin, row_end - row_begin),
                  NextPanel<Element>(base, k_count),
                  product.out.Rows(row_begin, row_end - row_begin).Cols(first, cols));
}

// Output columns [16 panel, 16 panel + 16) of rows [row_begin, row_end).
void RunPanel(const Product& product, std::int64_t panel, std::int64_t row_begin,
              std::int64_t row_end) {
  switch (product.weight.dtype) {
    case DType::kBF16:
      return PanelProduct<Bf16Element>(product, panel, row_begin, row_end);
    case DType::kF16:
      return PanelProduct<F16Element>(product, panel, row_begin, row_end);
    default:
      return PanelProduct<F32Element>(product, panel, row_begin, row_end);
  }
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {
namespace {

HWY_EXPORT(RunPanel);

constexpr std::int64_t kPanelColumns = 16;
// Fewer multiply-adds than this take about 1 us, four times as long as starting and joining a
// second thread that is still polling (BM_ParallelFor): too little to share out.
constexpr std::int64_t kSerialMacs = 12 * 1024;

// Rows that are not cut apart, since each part would pack the panel.
constexpr std::int64_t kGrainRows = 8;

// Work is counted in units of one row times one panel, panel by panel: a product's share of the
// units is its share of the time, and a thread packs only one panel that it does not own whole.
std::int64_t Units(const Product& p) {
  return CeilDiv(p.weight.rows, kPanelColumns) * p.x.rows;
}

// Units [begin, end) of one product.
void RunUnits(const Product& product, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = product.x.rows;
  while (begin < end) {
    const std::int64_t first_row = begin % rows;
    const std::int64_t count = std::min(rows - first_row, end - begin);
    HWY_DYNAMIC_DISPATCH(RunPanel)(product, begin / rows, first_row, first_row + count);
    begin += count;
  }
}

// Units [begin, end) of all products, counted one after another.
void RunUnits(std::span<const Product> products, std::int64_t begin, std::int64_t end) {
  std::int64_t first = 0;
  for (const Product& product : products) {
    const std::int64_t last = first + Units(product);
    RunUnits(product, std::max(begin, first) - first, std::min(end, last) - first);
    first = last;
  }
}

}  // namespace

void RunProducts(std::span<const Product> products) {
  for (const Product& product : products) RunUnits(product, 0, Units(product));
}

void RunProducts(ThreadPool& pool, std::span<const Product> products) {
  std::int64_t units = 0;
  std::int64_t macs = 0;
  std::int64_t grain = kGrainRows;
  for (const Product& p : products) {
    units += Units(p);
    grain = std::min(grain, std::max<std::int64_t>(1, p.x.rows));
    macs += p.x.rows * p.weight.rows * p.weight.cols;
  }
  pool.ParallelFor(units, macs < kSerialMacs ? units : grain,
                   [&](std::int64_t begin, std::int64_t end) { RunUnits(products, begin, end); });
}

void Linear(const OpContext& ctx, ConstMatrix x, std::span<const LinearPart> parts) {
  thread_local std::vector<Product> products;
  products.clear();
  for (const LinearPart& part : parts) products.push_back({x, part.weight, part.out});
  RunProducts(ctx.pool, products);
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
