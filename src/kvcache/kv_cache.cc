#include "kvcache/kv_cache.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cassert>
#include <cstring>

#include "base/checked.h"

namespace kv8 {

KvCachePlan KvCachePlan::ForTokens(const QsaConfig& qsa, KvDType dtype, std::int64_t layers,
                                   std::int64_t tokens) {
  return KvCachePlan{.kv = {.dtype = dtype, .kv_heads = qsa.kv_heads, .head_dim = qsa.head_dim},
                     .index = {.fp32 = dtype == KvDType::kFp32,
                               .keys_per_page = kPageTokens / qsa.selection_block_tokens,
                               .index_dim = qsa.index_dim},
                     .layers = layers,
                     .pages = CeilDiv(tokens, kPageTokens)};
}

void KvCache::Unmap::operator()(std::byte* memory) const {
  ::munmap(memory, bytes);
}

Result<KvCache> KvCache::Create(const KvCachePlan& plan, std::vector<StoreScales> scales) {
  assert(scales.size() ==
         (plan.kv.dtype == KvDType::kE4M3 ? static_cast<std::size_t>(plan.layers) : 0));
  const std::int64_t bytes = plan.kv_bytes() + plan.index_bytes();
  KvCache cache;
  cache.plan_ = plan;
  cache.scales_ = std::move(scales);
  cache.saturation_.resize(static_cast<std::size_t>(plan.layers));
  if (bytes == 0) return cache;
  // A private map: page-aligned, zeroed on first touch, given back whole.
  void* memory = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Error{
        Code::kResourceExhausted,
        fmt::format("cannot allocate {} bytes for {} tokens", bytes, plan.pages * kPageTokens),
        "K/V cache", "shorten the context or use --kv-cache-dtype fp8_e4m3"};
  }
  // A step reads from everywhere in the pool; with huge pages that takes few entries of the TLB. A
  // system without huge pages uses small ones.
  ::madvise(memory, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  cache.memory_ = {static_cast<std::byte*>(memory), Unmap(static_cast<std::size_t>(bytes))};
  return cache;
}

KvPages KvCache::Kv(int layer, std::span<const PageId> pages) {
  const StoreScales scales =
      scales_.empty() ? StoreScales{} : scales_[static_cast<std::size_t>(layer)];
  return KvPages{.pool = memory_.get() + layer * plan_.pages * plan_.kv.page_bytes(),
                 .layout = plan_.kv,
                 .table = pages,
                 .k_scale = scales.k,
                 .v_scale = scales.v};
}

IndexPages KvCache::Index(int layer, std::span<const PageId> pages) {
  return IndexPages{
      .pool = memory_.get() + plan_.kv_bytes() + layer * plan_.pages * plan_.index.page_bytes(),
      .layout = plan_.index,
      .table = pages};
}

template <class Visit>
void KvCache::ForEachPiece(PageId page, Visit&& visit) const {
  std::byte* pool = memory_.get();
  for (const std::int64_t bytes : {plan_.kv.page_bytes(), plan_.index.page_bytes()}) {
    for (std::int64_t layer = 0; layer < plan_.layers; ++layer) {
      visit(pool + static_cast<std::int64_t>(page) * bytes, static_cast<std::size_t>(bytes));
      pool += plan_.pages * bytes;
    }
  }
}

void KvCache::CopyOut(std::span<const PageId> pages, std::span<std::byte> to) const {
  assert(to.size() == pages.size() * static_cast<std::size_t>(plan_.page_bytes()));
  std::byte* next = to.data();
  for (const PageId page : pages) {
    ForEachPiece(page, [&](const std::byte* piece, std::size_t bytes) {
      std::memcpy(next, piece, bytes);
      next += bytes;
    });
  }
}

void KvCache::CopyIn(std::span<const std::byte> from, std::span<const PageId> pages) {
  assert(from.size() == pages.size() * static_cast<std::size_t>(plan_.page_bytes()));
  const std::byte* next = from.data();
  for (const PageId page : pages) {
    ForEachPiece(page, [&](std::byte* piece, std::size_t bytes) {
      std::memcpy(piece, next, bytes);
      next += bytes;
    });
  }
}

void KvCache::CopyPage(PageId from, PageId to) {
  const std::int64_t distance = static_cast<std::int64_t>(to) - static_cast<std::int64_t>(from);
  ForEachPiece(from, [&](std::byte* piece, std::size_t bytes) {
    std::memcpy(piece + distance * static_cast<std::int64_t>(bytes), piece, bytes);
  });
}

}  // namespace kv8
