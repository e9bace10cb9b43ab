#include "kvtier/host_tier.h"

#include <algorithm>
#include <utility>

namespace kv8 {

std::optional<TierWrite> HostTier::Take(const LeavingPrefix& leaving) {
  const std::int64_t pages = std::ssize(leaving.pages);
  const PrefixKeys keys =
      KeysOf(options_.binding, leaving.group, leaving.tokens, pages, options_.with_draft);
  ++clock_;
  if (const auto known = entries_.find(keys.Exact(pages)); known != entries_.end()) {
    known->second.used = clock_;
    return TakeState(known->second, leaving.snapshot);
  }
  if (store_ != nullptr && store_->ByExact(keys.Exact(pages)) != nullptr) return std::nullopt;
  std::int64_t first = pages - 1;
  while (first > leaving.run_begin && ByExact(keys.Exact(first), false) == nullptr) --first;
  const auto parent = entries_.find(keys.Exact(first));
  // What the unit goes on from must not make room for it.
  const auto held = parent == entries_.end() ? nullptr : parent->second.unit;
  const std::int64_t page_bytes = (pages - first) * options_.layout.page_bytes;
  const auto capacity = [](std::int64_t bytes) {
    return static_cast<std::int64_t>(IoBuffer::CapacityFor(static_cast<std::size_t>(bytes)));
  };
  if (!MakeRoom(capacity(page_bytes) + capacity(options_.layout.state_bytes))) {
    ++counts_.lost;
    return std::nullopt;
  }
  auto unit = std::make_shared<KvUnit>(
      KvUnit{.name = {.parent = keys.Exact(first),
                      .end = keys.End(pages),
                      .exact = keys.Exact(pages),
                      .first = first,
                      .last = pages},
             .pages = std::make_unique<UnitMemory>(used_, static_cast<std::size_t>(page_bytes)),
             .state = std::make_unique<UnitMemory>(
                 used_, static_cast<std::size_t>(options_.layout.state_bytes))});
  const auto run = leaving.pages.begin() + static_cast<std::ptrdiff_t>(first);
  TierWrite write{unit, {run, leaving.pages.end()}, leaving.snapshot};
  Add({std::move(unit), clock_, held != nullptr && parent->second.returned});
  ++counts_.written_units;
  counts_.written_bytes += static_cast<std::uint64_t>(page_bytes + options_.layout.state_bytes);
  return write;
}

/// Whole or not at all, so that no index ever names a unit that nobody fills.
void HostTier::Add(Entry entry) {
  const UnitName& name = entry.unit->name;
  const auto end = exact_of_.emplace(name.end, name.exact);
  try {
    ++children_[name.parent];
    entries_.emplace(name.exact, std::move(entry));
  } catch (...) {
    exact_of_.erase(end);  // a count too many only keeps the parent longer
    throw;
  }
}

/// The state again, where a run has given it up.
std::optional<TierWrite> HostTier::TakeState(Entry& entry, SnapshotId snapshot) {
  const std::shared_ptr<KvUnit> unit = entry.unit;  // held: not given up for its own state
  if (unit->state != nullptr) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(options_.layout.state_bytes);
  if (!MakeRoom(static_cast<std::int64_t>(IoBuffer::CapacityFor(bytes)))) return std::nullopt;
  unit->state = std::make_unique<UnitMemory>(used_, bytes);
  unit->written = false;
  counts_.written_bytes += bytes;
  return TierWrite{unit, {}, snapshot};
}

void HostTier::Forget(const KvUnit& unit) {
  const auto entry = entries_.find(unit.name.exact);
  if (entry != entries_.end() && entry->second.unit.get() == &unit) Remove(entry);
}

/// Here or in the store; null when there is none, or here without the state that is wanted.
const UnitName* HostTier::ByExact(const std::string& exact, bool with_state) const {
  const auto here = entries_.find(exact);
  if (here != entries_.end() && (here->second.unit->state || !with_state)) {
    return &here->second.unit->name;
  }
  return store_ == nullptr ? nullptr : store_->ByExact(exact);
}

/// A unit with a state at this end; the one that can be gone on from, where there are several.
const UnitName* HostTier::ByEnd(const std::string& end, const std::string& exact) const {
  if (const UnitName* best = ByExact(exact, true)) return best;
  const auto [begin, past] = exact_of_.equal_range(end);
  for (auto it = begin; it != past; ++it) {
    const KvUnit& unit = *entries_.at(it->second).unit;
    if (unit.state) return &unit.name;
  }
  return store_ == nullptr ? nullptr : store_->ByEnd(end);
}

/// Units from `known` pages or fewer up to `last`; nothing when one is missing or cannot be read.
TierHit HostTier::ChainTo(const UnitName& last, const PrefixKeys& keys, std::int64_t known) {
  std::vector<UnitName> path{last};
  while (path.back().first > known) {
    const UnitName* before = ByExact(keys.Exact(path.back().first), false);
    if (before == nullptr) return {};
    path.push_back(*before);
  }
  TierHit hit;
  for (std::size_t i = path.size(); i-- > 0;) {
    auto unit = Fetch(path[i], i == 0);
    if (unit == nullptr) return {};
    hit.chain.push_back(std::move(unit));
  }
  hit.pages = last.last;
  entries_.at(last.exact).returned = true;
  return hit;
}

/// The unit in memory, read from the store if need be; null when it is not what it was or finds no
/// room.
std::shared_ptr<KvUnit> HostTier::Fetch(const UnitName& name, bool with_state) {
  const auto here = entries_.find(name.exact);
  if (here != entries_.end() && (here->second.unit->state || !with_state)) {
    here->second.used = clock_;
    return here->second.unit;
  }
  if (here != entries_.end()) Remove(here);  // all of it is read again
  const auto bytes = static_cast<std::size_t>(name.pages() * options_.layout.page_bytes);
  const auto state = static_cast<std::size_t>(options_.layout.state_bytes);
  if (!MakeRoom(
          static_cast<std::int64_t>(IoBuffer::CapacityFor(bytes) + IoBuffer::CapacityFor(state)))) {
    return nullptr;
  }
  auto unit = std::make_shared<KvUnit>(KvUnit{.name = name,
                                              .pages = std::make_unique<UnitMemory>(used_, bytes),
                                              .state = std::make_unique<UnitMemory>(used_, state)});
  if (!store_->Read(name.exact, unit->pages->buffer(), unit->state->buffer())) return nullptr;
  unit->written = true;
  Add({unit, clock_, false});
  return unit;
}

void HostTier::Spill(const KvUnit& unit) {
  if (store_ != nullptr && unit.written && unit.state) store_->Write(unit);
}

void HostTier::StoreAll() {
  if (store_ == nullptr) return;
  std::vector<const Entry*> oldest_first;
  for (const auto& [exact, entry] : entries_) oldest_first.push_back(&entry);
  std::ranges::sort(oldest_first, {}, &Entry::used);
  for (const Entry* entry : oldest_first) Spill(*entry->unit);
}

TierHit HostTier::Find(std::span<const TokenId> prompt, std::int64_t max_pages, std::uint64_t group,
                       std::int64_t known, std::int64_t above) {
  if (max_pages <= above) return {};
  if (store_ != nullptr) store_->Refresh();
  ++clock_;
  const PrefixKeys keys = KeysOf(options_.binding, group, prompt, max_pages, options_.with_draft);
  for (std::int64_t pages = max_pages; pages > above; --pages) {
    const UnitName* const last = ByEnd(keys.End(pages), keys.Exact(pages));
    if (last == nullptr) continue;
    TierHit hit = ChainTo(UnitName(*last), keys, known);
    if (hit.pages > 0) return hit;
  }
  return {};
}

void HostTier::OnHit(std::int64_t pages, std::int64_t copied) {
  ++counts_.hits;
  counts_.hit_pages += static_cast<std::uint64_t>(pages);
  counts_.restored_bytes += static_cast<std::uint64_t>(options_.layout.Bytes(copied));
}

bool HostTier::MakeRoom(std::int64_t bytes) {
  while (used_ + bytes > options_.budget) {
    if (!GiveUpState() && !GiveUpUnit()) return false;
  }
  return true;
}

int HostTier::Children(const std::string& exact) const {
  const auto found = children_.find(exact);
  return found == children_.end() ? 0 : found->second;
}

/// The oldest state that one later unit, and no more, goes on from. What this step reads or fills
/// stays.
bool HostTier::GiveUpState() {
  Entry* oldest = nullptr;
  for (auto& [exact, entry] : entries_) {
    if (entry.unit.use_count() > 1 || !entry.unit->state || Children(exact) != 1) continue;
    if (oldest == nullptr || entry.used < oldest->used) oldest = &entry;
  }
  if (oldest == nullptr) return false;
  Spill(*oldest->unit);
  oldest->unit->state.reset();
  ++counts_.states_given_up;
  return true;
}

bool HostTier::GiveUpUnit() {
  const std::uint64_t bonus = 2 * entries_.size();
  const auto rank = [bonus](const Entry& entry) {
    return entry.used + (entry.returned ? bonus : 0);
  };
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->second.unit.use_count() > 1 || Children(it->first) > 0) continue;
    if (oldest == entries_.end() || rank(it->second) < rank(oldest->second)) oldest = it;
  }
  if (oldest == entries_.end()) return false;
  // A way without an end is of no use.
  while (oldest != entries_.end()) {
    const std::string parent = oldest->second.unit->name.parent;
    Spill(*oldest->second.unit);
    Remove(oldest);
    ++counts_.units_given_up;
    oldest = entries_.find(parent);
    if (oldest == entries_.end() || oldest->second.unit->state || Children(parent) > 0) break;
    if (oldest->second.unit.use_count() > 1) break;
  }
  return true;
}

void HostTier::Remove(Entries::iterator entry) {
  const UnitName& name = entry->second.unit->name;
  const auto [begin, past] = exact_of_.equal_range(name.end);
  const auto mine =
      std::find_if(begin, past, [&](const auto& e) { return e.second == name.exact; });
  exact_of_.erase(mine);
  const auto siblings = children_.find(name.parent);
  if (--siblings->second == 0) children_.erase(siblings);
  entries_.erase(entry);
}

KvTierStatistics HostTier::statistics() const {
  KvTierStatistics now = counts_;
  if (store_ != nullptr) {
    const DiskCounts& disk = store_->counts();
    now.disk_files = disk.files;
    now.disk_bytes = disk.bytes;
    now.disk_read_units = disk.read_units;
    now.disk_written_units = disk.written_units;
    now.disk_refused = disk.refused;
    now.disk_failed = disk.failed;
    now.disk_writes = store_->writes();
  }
  now.budget = static_cast<std::uint64_t>(options_.budget);
  now.bytes = static_cast<std::uint64_t>(used_);
  now.units = entries_.size();
  for (const auto& [exact, entry] : entries_) {
    now.contexts += entry.unit->state && Children(exact) == 0 ? 1 : 0;
  }
  return now;
}

}  // namespace kv8
