#include "ops/hyper_connection.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/checked.h"
#include "ops/cpu/product.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/hyper_connection_simd.cc"
#include "ops/cpu/simd_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "ops/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

void NormStreams(const float* streams, const float* gain, int count, std::int64_t dim, float eps,
                 float* out) {
  GroupedNorm(streams, gain, count, dim, eps, out);
}

// x = silu(x * factor)
void ScaledSilu(float factor, std::int64_t count, float* x) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto tag, std::int64_t i) HWY_ATTR {
    hn::StoreU(Silu(tag, hn::Mul(hn::LoadU(tag, x + i), hn::Set(tag, factor))), tag, x + i);
  });
}

// x = 2 sigmoid(x * factor)
void TwiceSigmoid(float factor, std::int64_t count, float* x) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto tag, std::int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(tag, x + i), hn::Set(tag, factor));
    hn::StoreU(hn::Mul(hn::Set(tag, 2.0f), Sigmoid(tag, scaled)), tag, x + i);
  });
}

// x[i] = mean over streams of sigmoid(g[s,i]) * n[s,i]
void GatedMean(const float* n, const float* g, int count, std::int64_t dim, float* x) {
  const float factor = 1.0f / static_cast<float>(count);
  ForEachVector(hn::ScalableTag<float>(), dim, [&](auto tag, std::int64_t i) HWY_ATTR {
    auto sum = hn::Zero(tag);
    for (int s = 0; s < count; ++s) {
      const auto gate = Sigmoid(tag, hn::LoadU(tag, g + s * dim + i));
      sum = hn::MulAdd(gate, hn::LoadU(tag, n + s * dim + i), sum);
    }
    hn::StoreU(hn::Mul(sum, hn::Set(tag, factor)), tag, x + i);
  });
}

// streams[s,i] += inject[s] * y[i]
void InjectRow(const float* y, const float* inject, int count, std::int64_t dim, float* streams) {
  for (int s = 0; s < count; ++s) {
    float* stream = streams + s * dim;
    ForEachVector(hn::ScalableTag<float>(), dim, [&](auto tag, std::int64_t i) HWY_ATTR {
      const auto sum =
          hn::MulAdd(hn::Set(tag, inject[s]), hn::LoadU(tag, y + i), hn::LoadU(tag, stream + i));
      hn::StoreU(sum, tag, stream + i);
    });
  }
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {
namespace {

HWY_EXPORT(NormStreams);
HWY_EXPORT(ScaledSilu);
HWY_EXPORT(TwiceSigmoid);
HWY_EXPORT(GatedMean);
HWY_EXPORT(InjectRow);

// Rows whose normalised streams stay in the second cache level from one product to the next.
constexpr std::int64_t kMixRows = 64;
// A thread that has this many rows makes as good use of the weights as one that has them all.
constexpr std::int64_t kLeastRows = 8;
// HyperCombine: elements that are done before a second thread has started.
constexpr std::int64_t kSerialElements = 2048;

// Buffers of a mix of T rows; W = streams * H, r the rank.
struct MixBuffers {
  Matrix n;  // [T,W]
  Matrix g;  // [T,W]
  Matrix d;  // [T,r]
};

MixBuffers TakeBuffers(Arena& arena, std::int64_t rows, std::int64_t width, std::int64_t rank) {
  MixBuffers b;
  b.n = Matrix(arena.Take<float>(rows * width), rows, width);
  b.g = Matrix(arena.Take<float>(rows * width), rows, width);
  b.d = Matrix(arena.Take<float>(rows * rank), rows, rank);
  return b;
}

// The whole mix of a few rows. `run` computes the products it is given with the scratch it is
// given; `loop` calls its body for ranges of the rows.
template <class Run, class Loop>
void MixPiece(Arena scratch, const Run& run, const Loop& loop, ConstMatrix streams,
              const HyperConnectionWeights& weights, int count, float eps, Matrix x,
              Matrix inject) {
  const std::int64_t rows = streams.rows;
  const std::int64_t rank = weights.down.rows;
  const MixBuffers b = TakeBuffers(scratch, rows, streams.cols, rank);
  const Matrix n = b.n, g = b.g, d = b.d;
  loop(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(NormStreams)
      (streams.row(t).data(), weights.gain.data(), count, x.cols, eps, n.row(t).data());
    }
  });
  // Both read n, so they share one call; a mixer without inject computes none of its rows.
  const std::array inputs = {Product{n, weights.down, d}, Product{n, weights.inject, inject}};
  run(scratch, std::span(inputs).first(weights.inject.empty() ? 1 : 2));
  const float factor = 1.0f / static_cast<float>(count);
  HWY_DYNAMIC_DISPATCH(ScaledSilu)(factor, rows * rank, d.data);
  const Product gates{d, weights.up, g};
  run(scratch, std::span(&gates, 1));
  loop(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(GatedMean)
      (n.row(t).data(), g.row(t).data(), count, x.cols, x.row(t).data());
      if (weights.inject.empty()) continue;
      HWY_DYNAMIC_DISPATCH(TwiceSigmoid)(factor, count, inject.row(t).data());
    }
  });
}

// Rows of one call that each step of is shared out, not the rows: too few for that.
std::int64_t FewRows(int threads) {
  return threads * kLeastRows - 1;
}

// Most rows of one piece when they are shared out: every piece reads all weights, so a few rows are
// one piece for each thread.
std::int64_t PieceRows(std::int64_t rows, int threads) {
  return std::min(kMixRows, CeilDiv<std::int64_t>(rows, threads));
}

}  // namespace

ScratchSize HyperMixScratch(const OpSizes& sizes) {
  const std::int64_t width = sizes.streams * sizes.hidden;
  const std::int64_t widest = std::max(width, sizes.lowrank);
  ScratchSize most;
  for (const std::int64_t rows : MostRows(std::min(sizes.rows, FewRows(sizes.threads)))) {
    Arena shared, thread;
    TakeBuffers(shared, rows, width, sizes.lowrank);
    TakePackedRows(shared, rows, widest);
    TakePanel(thread, rows, widest);
    most.Cover({shared.bytes(), thread.bytes()});
  }
  if (sizes.rows <= FewRows(sizes.threads)) return most;
  for (const std::int64_t rows : MostRows(PieceRows(sizes.rows, sizes.threads))) {
    Arena thread;
    TakeBuffers(thread, rows, width, sizes.lowrank);
    TakePanel(thread, rows, widest);
    most.Cover({0, thread.bytes()});
  }
  return most;
}

void HyperMix(const OpContext& ctx, ConstMatrix streams, const HyperConnectionWeights& weights,
              int stream_count, float eps, Matrix x, Matrix inject) {
  const int threads = ctx.pool.size();
  if (streams.rows <= FewRows(threads)) {
    const auto run = [&](Arena left, std::span<const Product> products) {
      RunProducts(ctx, left, products);
    };
    const auto loop = [&](std::int64_t rows, const auto& body) {
      ctx.pool.ParallelFor(rows, 1, body);
    };
    return MixPiece(ctx.scratch.shared, run, loop, streams, weights, stream_count, eps, x, inject);
  }
  const auto run = [](Arena left, std::span<const Product> products) {
    RunProducts(left, products);
  };
  const auto loop = [](std::int64_t rows, const auto& body) { body(std::int64_t{0}, rows); };
  const std::int64_t piece = PieceRows(streams.rows, threads);
  const auto body = [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t t = begin; t < end; t += piece) {
      const std::int64_t rows = std::min(piece, end - t);
      MixPiece(ctx.scratch.Thread(thread), run, loop, streams.Rows(t, rows), weights, stream_count,
               eps, x.Rows(t, rows), weights.inject.empty() ? inject : inject.Rows(t, rows));
    }
  };
  ctx.pool.ParallelFor(streams.rows, streams.rows <= threads * kMixRows ? piece : kLeastRows, body);
}

void HyperCombine(const OpContext& ctx, ConstMatrix y, ConstMatrix inject, Matrix streams) {
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      HWY_DYNAMIC_DISPATCH(InjectRow)
      (y.row(t).data(), inject.row(t).data(), static_cast<int>(inject.cols), y.cols,
       streams.row(t).data());
    }
  };
  ctx.pool.ParallelFor(y.rows, std::max<std::int64_t>(1, kSerialElements / streams.cols), body);
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
