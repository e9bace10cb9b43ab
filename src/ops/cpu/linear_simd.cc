#include "ops/linear.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "base/checked.h"
#include "ops/cpu/product.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/linear_simd.cc"
#include "ops/cpu/simd_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "ops/cpu/code_panels-inl.h"
#include "ops/cpu/linear_kernels-inl.h"
#include "ops/cpu/quad_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

// Some rows times some panels.
struct Part {
  ConstMatrix x;
  const float* packed;  // x by PackRows, or null
  Weight weight;
  Matrix out;
  Arena scratch;
};

template <class Element>
void PackedProduct(const Part& part) {
  const std::int64_t k_count = part.x.cols;
  Arena scratch = part.scratch;
  float* packed = TakePanel(scratch, part.x.rows, k_count);
  for (std::int64_t first = 0; first < part.out.cols; first += kPanel) {
    const std::int64_t cols = std::min(kPanel, part.out.cols - first);
    const std::byte* base = part.weight.codes + first * k_count * Element::kBytes;
    PackPanel<Element>(base, k_count, static_cast<int>(cols), packed);
    RowsTimesPacked(packed, k_count, part.x, NextPanel<Element>(base, k_count),
                    part.out.Cols(first, cols));
  }
}

template <class Element>
void RowProduct(const Part& part) {
  const std::int64_t k_count = part.x.cols;
  for (std::int64_t first = 0; first < part.out.cols; first += kPanel) {
    const auto cols = static_cast<int>(std::min(kPanel, part.out.cols - first));
    RowTimesPanel<Element>(part.x.data, part.weight.codes + first * k_count * Element::kBytes,
                           k_count, cols, part.out.data + first);
  }
}

// Whether products of x are computed from packed rows.
inline bool TakesPackedRows(ConstMatrix x) {
  return HWY_TARGET != HWY_SCALAR && x.rows > 1 && x.rows <= kUnpackedRows && x.cols > 0 &&
         x.cols % 4 == 0;
}

#if HWY_TARGET != HWY_SCALAR
template <class Element>
void QuadProduct(const Part& part) {
  const std::int64_t k_count = part.x.cols;
  for (std::int64_t t = 0, rows = 0; t < part.x.rows; t += rows) {
    rows = std::min(part.x.rows - t, kTileVectors * kVectorRows);
    const float* x = part.packed + t / kVectorRows * VectorFloats(k_count);
    const Matrix out = part.out.Rows(t, rows);
    if (rows == 1) {
      RowProduct<Element>({part.x.Rows(t, 1), nullptr, part.weight, out, part.scratch});
    } else if (rows <= kVectorRows) {
      PackedRowsTimesPanels<Element, 1>(x, part.weight.codes, k_count, out);
    } else {
      PackedRowsTimesPanels<Element, kTileVectors>(x, part.weight.codes, k_count, out);
    }
  }
}
#endif

template <class Element>
void PartProduct(Part part, [[maybe_unused]] bool quads) {
  if (part.x.rows == 1) return RowProduct<Element>(part);
#if HWY_TARGET != HWY_SCALAR
  if (quads) {
    if (part.packed == nullptr) {
      float* packed = TakePanel(part.scratch, part.x.rows, part.x.cols);
      PackRows(part.x, packed);
      part.packed = packed;
    }
    return QuadProduct<Element>(part);
  }
#endif
  PackedProduct<Element>(part);
}

// Panels are expanded for several rows; a single row meets its weights in the registers.
template <class Code>
void CodesProduct(const Part& part) {
  Arena scratch = part.scratch;
  float* packed = TakePanel(scratch, part.x.rows, part.x.cols);
  for (std::int64_t first = 0; first < part.out.cols; first += kPanel) {
    const Weight panel = part.weight.Rows(first, std::min(kPanel, part.out.cols - first));
    if (part.x.rows == 1) {
      RowTimesCodes<Code>(part.x.data, panel, part.out.data + first);
    } else {
      ExpandPanel<Code>(panel, packed);
      RowsTimesExpanded(packed, panel, part.x, part.out.Cols(first, panel.rows));
    }
  }
}

// x by PackRows, or null where it would not be used.
const float* PackOnce([[maybe_unused]] ConstMatrix x, [[maybe_unused]] Arena& scratch) {
#if HWY_TARGET != HWY_SCALAR
  if (TakesPackedRows(x)) {
    float* packed = TakePackedRows(scratch, x.rows, x.cols);
    PackRows(x, packed);
    return packed;
  }
#endif
  return nullptr;
}

// Output columns [16 panel_begin, 16 panel_end) of rows [row_begin, row_end). `packed` is what
// PackOnce gave for the product's x, or null.
void RunPanels(const Product& product, [[maybe_unused]] const float* packed, Arena scratch,
               std::int64_t panel_begin, std::int64_t panel_end, std::int64_t row_begin,
               std::int64_t row_end) {
  const std::int64_t first = panel_begin * kPanel;
  const std::int64_t cols = std::min(panel_end * kPanel, product.weight.rows) - first;
  const std::int64_t rows = row_end - row_begin;
  Part part{product.x.Rows(row_begin, rows), nullptr, product.weight.Rows(first, cols),
            product.out.Rows(row_begin, rows).Cols(first, cols), scratch};
#if HWY_TARGET != HWY_SCALAR
  if (packed != nullptr && row_begin % kVectorRows == 0) {
    part.packed = packed + row_begin / kVectorRows * VectorFloats(product.weight.cols);
  }
#endif
  const bool quads = TakesPackedRows(product.x);
  switch (product.weight.format) {
    case WeightFormat::kBf16:
      return PartProduct<Bf16Element>(part, quads);
    case WeightFormat::kFp16:
      return PartProduct<F16Element>(part, quads);
    case WeightFormat::kFp32:
      return PartProduct<F32Element>(part, quads);
    case WeightFormat::kFp8:
      return CodesProduct<Fp8Code>(part);
    case WeightFormat::kNvfp4:
      return CodesProduct<E2M1Code>(part);
    case WeightFormat::kInt4:
      return CodesProduct<Int4Code>(part);
  }
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {
namespace {

HWY_EXPORT(RunPanels);
HWY_EXPORT(PackOnce);

constexpr std::int64_t kPanelColumns = 16;
// Fewer multiply-adds than this take about 1 us, four times as long as starting and joining a
// second thread that is still polling (BM_ParallelFor): too little to share out.
constexpr std::int64_t kSerialMacs = 12 * 1024;

// Rows that are never split: they are one tile, or each part would pack the panel.
constexpr std::int64_t kGrainRows = 8;

// Work is counted in units of one row times one panel, panel by panel: a product's share of the
// units is its share of the time, and a thread packs only one panel that it does not own whole.
std::int64_t Units(const Product& p) {
  return CeilDiv(p.weight.rows, kPanelColumns) * p.x.rows;
}

// Units [begin, end) of one product: what is left of the first panel, whole panels, the last's
// rows.
void RunUnits(const Product& product, const float* packed, Arena scratch, std::int64_t begin,
              std::int64_t end) {
  const std::int64_t rows = product.x.rows;
  while (begin < end) {
    const std::int64_t panel = begin / rows;
    const std::int64_t row = begin % rows;
    const std::int64_t whole = row == 0 ? (end - begin) / rows : 0;
    const std::int64_t count = whole > 0 ? whole * rows : std::min(rows - row, end - begin);
    HWY_DYNAMIC_DISPATCH(RunPanels)
    (product, packed, scratch, panel, panel + std::max<std::int64_t>(1, whole), row,
     row + (whole > 0 ? rows : count));
    begin += count;
  }
}

// Units [begin, end) of all products, counted one after another.
void RunUnits(std::span<const Product> products, const float* packed, Arena scratch,
              std::int64_t begin, std::int64_t end) {
  std::int64_t first = 0;
  for (const Product& product : products) {
    const std::int64_t last = first + Units(product);
    RunUnits(product, packed, scratch, std::max(begin, first) - first, std::min(end, last) - first);
    first = last;
  }
}

// Packs the rows of x if all products have the same; else each packs its own, where it is used.
// Products of codes do not use them.
const float* PackShared(std::span<const Product> products, Arena& scratch) {
  const ConstMatrix x = products.front().x;
  for (const Product& p : products) {
    if (!IsPlain(p.weight.format)) return nullptr;
    if (p.x.data != x.data || p.x.rows != x.rows || p.x.cols != x.cols) return nullptr;
  }
  return HWY_DYNAMIC_DISPATCH(PackOnce)(x, scratch);
}

}  // namespace

void RunProducts(Arena scratch, std::span<const Product> products) {
  const float* packed = PackShared(products, scratch);
  for (const Product& product : products) RunUnits(product, packed, scratch, 0, Units(product));
}

void RunProducts(const OpContext& ctx, Arena shared, std::span<const Product> products) {
  std::int64_t units = 0;
  std::int64_t macs = 0;
  std::int64_t grain = kGrainRows;
  for (const Product& p : products) {
    units += Units(p);
    grain = std::min(grain, std::max<std::int64_t>(1, p.x.rows));
    macs += p.x.rows * p.weight.rows * p.weight.cols;
  }
  const float* packed = PackShared(products, shared);
  ctx.pool.ParallelFor(units, macs < kSerialMacs ? units : grain,
                       [&](std::int64_t begin, std::int64_t end, int thread) {
                         RunUnits(products, packed, ctx.scratch.Thread(thread), begin, end);
                       });
}

ScratchSize LinearScratch(const OpSizes& sizes) {
  return ProductScratch(sizes.linear_rows, sizes.linear_cols);
}

void Linear(const OpContext& ctx, ConstMatrix x, std::span<const LinearPart> parts) {
  std::array<Product, kMaxLinearParts> products;
  assert(parts.size() <= products.size());
  for (std::size_t i = 0; i < parts.size(); ++i) products[i] = {x, parts[i].weight, parts[i].out};
  RunProducts(ctx, ctx.scratch.shared, std::span(products).first(parts.size()));
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
