// Streams, states and pages between slots, pools and host memory.
#include <algorithm>

#include "model/cuda/cuda_executor.h"

namespace kv8::cuda {

CopySet CudaExecutor::GatherSet(Gather gather) const {
  return {work_.gathers + static_cast<int>(gather), 1,
          width_ * static_cast<std::int64_t>(sizeof(float))};
}

Result<void> CudaExecutor::Copy(const CopySet& set, std::span<const CopyPair> pairs) {
  CopyItemsArgs args{
      .arrays = set.arrays, .array_count = set.count, .pair_count = 0, .largest = set.largest};
  while (!pairs.empty()) {
    const std::size_t count = std::min<std::size_t>(pairs.size(), kMaxCopyPairs);
    std::ranges::copy(pairs.first(count), args.own_pairs);
    args.pair_count = static_cast<std::int32_t>(count);
    KV8_RETURN_IF_ERROR(ops_->CopyItems(stream_, args));
    pairs = pairs.subspan(count);
  }
  return {};
}

Result<void> CudaExecutor::Read(void* to, const void* from, std::int64_t bytes) {
  KV8_RETURN_IF_ERROR(stream_.Copy(to, from, bytes));
  return stream_.Synchronize();
}

Result<void> CudaExecutor::ReadAndClear(void* to, void* from, std::int64_t bytes) {
  KV8_RETURN_IF_ERROR(Read(to, from, bytes));
  return stream_.Fill(from, std::byte{0}, bytes);
}

/// The rollbacks and resets asked for since the last pass; resets come last, for slots that have a
/// new sequence.
Result<void> CudaExecutor::ApplyPending() {
  KV8_RETURN_IF_ERROR(Copy(state_->copies().trail_to_state, rollbacks_));
  KV8_RETURN_IF_ERROR(Copy(state_->copies().state_to_state, resets_));
  rollbacks_.clear();
  resets_.clear();
  return {};
}

void CudaExecutor::Reset(int slot) {
  if (!failure_) resets_.push_back({state_->empty_slot(), slot});
}

void CudaExecutor::Rollback(int slot, std::int64_t kept) {
  if (!failure_) rollbacks_.push_back({TrailEntry(slot, kept), slot});
}

void CudaExecutor::SaveStreams(std::int64_t row, std::span<float> to) {
  Guard([&] {
    return Read(to.data(), work_.streams + row * width_,
                static_cast<std::int64_t>(to.size_bytes()));
  });
}

void CudaExecutor::LoadStreams(std::span<const float> from, std::int64_t row) {
  Guard([&] {
    return stream_.Copy(work_.streams + row * width_, from.data(),
                        static_cast<std::int64_t>(from.size_bytes()));
  });
}

void CudaExecutor::SaveState(int slot, std::optional<std::int64_t> kept, std::span<std::byte> to) {
  Guard([&]() -> Result<void> {
    KV8_RETURN_IF_ERROR(ApplyPending());
    const CopyPair whole{slot, 0};
    KV8_RETURN_IF_ERROR(Copy(state_->copies().state_to_pack, {&whole, 1}));
    if (kept) {
      const CopyPair recurrent{TrailEntry(slot, *kept), 0};
      KV8_RETURN_IF_ERROR(Copy(state_->copies().trail_to_pack, {&recurrent, 1}));
    }
    return Read(to.data(), state_->pack(), std::ssize(to));
  });
}

void CudaExecutor::LoadState(std::span<const std::byte> from, int slot) {
  Guard([&]() -> Result<void> {
    KV8_RETURN_IF_ERROR(ApplyPending());
    KV8_RETURN_IF_ERROR(stream_.Copy(state_->pack(), from.data(), std::ssize(from)));
    const CopyPair pair{0, slot};
    return Copy(state_->copies().pack_to_state, {&pair, 1});
  });
}

/// As many pages at a time as the pack holds: move(begin, bytes) for each part, whose pairs say
/// which page has which place in the pack.
template <class Function>
Result<void> CudaExecutor::EachPack(std::span<const PageId> pages, bool to_pack, Function&& move) {
  std::int64_t begin = 0;
  while (!pages.empty()) {
    const auto now = std::min<std::size_t>(pages.size(), DeviceState::kPackPages);
    pairs_.clear();
    for (std::size_t i = 0; i < now; ++i) {
      const auto page = static_cast<std::int32_t>(pages[i]), place = static_cast<std::int32_t>(i);
      pairs_.push_back(to_pack ? CopyPair{page, place} : CopyPair{place, page});
    }
    const std::int64_t bytes = static_cast<std::int64_t>(now) * limits_.cache.page_bytes();
    KV8_RETURN_IF_ERROR(move(begin, bytes));
    begin += bytes;
    pages = pages.subspan(now);
  }
  return {};
}

void CudaExecutor::SavePages(std::span<const PageId> pages, std::span<std::byte> to) {
  Guard([&] {
    return EachPack(pages, true, [&](std::int64_t begin, std::int64_t bytes) -> Result<void> {
      KV8_RETURN_IF_ERROR(Copy(state_->copies().page_to_pack, pairs_));
      return Read(to.data() + begin, state_->pack(), bytes);
    });
  });
}

void CudaExecutor::LoadPages(std::span<const std::byte> from, std::span<const PageId> pages) {
  Guard([&] {
    return EachPack(pages, false, [&](std::int64_t begin, std::int64_t bytes) -> Result<void> {
      KV8_RETURN_IF_ERROR(stream_.Copy(state_->pack(), from.data() + begin, bytes));
      return Copy(state_->copies().pack_to_page, pairs_);
    });
  });
}

void CudaExecutor::CopyPage(PageId from, PageId to) {
  const CopyPair pair{static_cast<std::int32_t>(from), static_cast<std::int32_t>(to)};
  Guard([&] { return Copy(state_->copies().page_to_page, {&pair, 1}); });
}

void CudaExecutor::TakeKvMagnitudes(std::span<HeadMagnitudes> to) {
  Guard([&] {
    return ReadAndClear(to.data(), work_.magnitudes.heads,
                        static_cast<std::int64_t>(to.size_bytes()));
  });
}

void CudaExecutor::TakeKvMaxima(std::span<std::uint32_t> to) {
  Guard([&] {
    return ReadAndClear(to.data(), work_.magnitudes.max_bits,
                        static_cast<std::int64_t>(to.size_bytes()));
  });
}

std::vector<SaturationCount> CudaExecutor::Saturation() {
  std::vector<SaturationCount> counts(static_cast<std::size_t>(limits_.cache.layers));
  static_assert(sizeof(SaturationCount) == 4 * sizeof(unsigned long long));
  Guard([&] {
    return Read(counts.data(), state_->saturation(0),
                std::ssize(counts) * static_cast<std::int64_t>(sizeof(SaturationCount)));
  });
  return counts;
}

}  // namespace kv8::cuda
