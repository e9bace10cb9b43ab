#include "kvcache/prefix_tree.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace kv8 {

bool PrefixTree::KeyLess::operator()(std::span<const TokenId> a, std::span<const TokenId> b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

PrefixTree::~PrefixTree() {
  for (const Node* node : nodes_) pool_.Free({&node->page, 1});
}

/// Tokens of one page of the prompt, and the one after them where nodes depend on it.
std::span<const TokenId> PrefixTree::KeyAt(std::span<const TokenId> prompt,
                                           std::int64_t page) const {
  return prompt.subspan(static_cast<std::size_t>(page * kPageTokens),
                        static_cast<std::size_t>(kPageTokens + (with_draft_ ? 1 : 0)));
}

/// Keys are in order, so those that begin with the page's tokens stand together.
PrefixTree::Step PrefixTree::FindStep(Children& children, std::span<const TokenId> key) {
  const auto tokens = key.first(static_cast<std::size_t>(kPageTokens));
  Step step;
  for (auto it = children.lower_bound(tokens);
       it != children.end() && std::equal(tokens.begin(), tokens.end(), it->first.begin()); ++it) {
    if (step.snapshot != nullptr) break;
    if (it->second->snapshot) step.snapshot = it->second.get();
  }
  const auto found = children.find(key);
  if (found != children.end()) step.exact = found->second.get();
  return step;
}

/// Steps along the prompt; all but the last have an exact node.
std::vector<PrefixTree::Step> PrefixTree::Match(std::span<const TokenId> prompt,
                                                std::int64_t max_pages, std::uint64_t group) {
  std::vector<Step> steps;
  Children* children = &roots_[group];
  while (static_cast<std::int64_t>(steps.size()) < max_pages) {
    const Step step = FindStep(*children, KeyAt(prompt, static_cast<std::int64_t>(steps.size())));
    if (step.exact == nullptr && step.snapshot == nullptr) break;
    steps.push_back(step);
    if (step.exact == nullptr) break;
    children = &step.exact->children;
  }
  return steps;
}

/// Counts as a use of all nodes of a path; the deepest stays the least recent.
void PrefixTree::Touch(std::span<Node* const> path) {
  for (std::size_t i = path.size(); i-- > 0;) {
    nodes_.splice(nodes_.end(), nodes_, path[i]->use);
  }
}

PrefixHit PrefixTree::Find(std::span<const TokenId> prompt, std::int64_t max_pages,
                           std::uint64_t group) {
  const std::vector<Step> steps = Match(prompt, max_pages, group);
  PrefixHit hit;
  hit.matched_pages = static_cast<std::int64_t>(steps.size());
  for (const Step& step : steps) {
    if (step.exact != nullptr) hit.known.push_back(step.exact->page);
  }
  std::size_t usable = steps.size();
  while (usable > 0 && steps[usable - 1].snapshot == nullptr) --usable;
  if (usable == 0) return hit;
  std::vector<Node*> path;
  for (std::size_t i = 0; i + 1 < usable; ++i) path.push_back(steps[i].exact);
  Node& last = *steps[usable - 1].snapshot;
  path.push_back(&last);
  Touch(path);
  snapshots_.splice(snapshots_.end(), snapshots_, last.snapshot_use);
  hit.snapshot = *last.snapshot;
  for (const Node* node : path) hit.pages.push_back(node->page);
  return hit;
}

void PrefixTree::Insert(std::span<const TokenId> prompt, std::span<const PageId> pages,
                        std::uint64_t group) {
  std::vector<Node*> path;
  path.reserve(pages.size());
  Children* children = &roots_[group];
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto key = KeyAt(prompt, static_cast<std::int64_t>(i));
    auto found = children->find(key);
    if (found == children->end()) {
      // All memory is taken before the tree changes.
      auto fresh = std::make_unique<Node>();
      std::list<Node*> use{fresh.get()};
      found = children->emplace(Key(key.begin(), key.end()), std::move(fresh)).first;
      Node& node = *found->second;
      node.parent = path.empty() ? nullptr : path.back();
      node.group = group;
      node.siblings = children;
      node.self = found;
      node.page = pages[i];
      node.use = use.begin();
      nodes_.splice(nodes_.end(), use);
      pool_.Retain({&node.page, 1});
    }
    path.push_back(found->second.get());
    children = &found->second->children;
  }
  Touch(path);
}

bool PrefixTree::WantsSnapshot(std::span<const TokenId> prompt, std::int64_t pages,
                               std::uint64_t group) {
  const std::vector<Step> steps = Match(prompt, pages, group);
  return static_cast<std::int64_t>(steps.size()) == pages && steps.back().exact != nullptr &&
         steps.back().snapshot == nullptr;
}

void PrefixTree::AttachSnapshot(std::span<const TokenId> prompt, std::int64_t pages,
                                SnapshotId snapshot, std::uint64_t group) {
  Node* node = Match(prompt, pages, group).back().exact;
  assert(node != nullptr && !node->snapshot);
  node->snapshot_use = snapshots_.insert(snapshots_.end(), node);
  node->snapshot = snapshot;
}

std::optional<SnapshotId> PrefixTree::DropSnapshot() {
  if (snapshots_.empty()) return std::nullopt;
  Node& node = *snapshots_.front();
  TellLeaving(node);
  snapshots_.pop_front();
  return std::exchange(node.snapshot, std::nullopt);
}

bool PrefixTree::DropSnapshot(SnapshotId snapshot) {
  const auto found = std::find_if(snapshots_.begin(), snapshots_.end(),
                                  [&](const Node* node) { return node->snapshot == snapshot; });
  if (found == snapshots_.end()) return false;
  (*found)->snapshot.reset();
  snapshots_.erase(found);
  return true;
}

std::vector<PageId> PrefixTree::page_ids() const {
  std::vector<PageId> ids;
  for (const Node* node : nodes_) ids.push_back(node->page);
  return ids;
}

void PrefixTree::Evict(std::int64_t count, std::vector<SnapshotId>& dropped) {
  const std::int64_t wanted = pool_.free_count() + count;
  for (auto it = nodes_.begin(); it != nodes_.end() && pool_.free_count() < wanted;) {
    Node& node = **it++;
    // What a running sequence holds would not become free.
    if (node.children.empty() && pool_.holders(node.page) == 1) Remove(node, dropped);
  }
}

void PrefixTree::TellLeaving(const Node& node) const {
  if (!on_leave_) return;
  try {
    LeavingPrefix leaving{.snapshot = *node.snapshot, .group = node.group};
    std::vector<const Node*> path;
    for (const Node* step = &node; step != nullptr; step = step->parent) path.push_back(step);
    const auto tokens = static_cast<std::ptrdiff_t>(kPageTokens);
    for (std::size_t i = path.size(); i-- > 0;) {
      const Key& key = path[i]->self->first;
      leaving.tokens.insert(leaving.tokens.end(), key.begin(),
                            i > 0 ? key.begin() + tokens : key.end());
      leaving.pages.push_back(path[i]->page);
      if (i > 0 && path[i]->snapshot) leaving.run_begin = std::ssize(leaving.pages);
    }
    on_leave_(leaving);
  } catch (const std::bad_alloc&) {
    // What could not be kept is computed again when it comes again.
  }
}

void PrefixTree::TellAll() const {
  for (const Node* node : snapshots_) TellLeaving(*node);
}

void PrefixTree::Remove(Node& node, std::vector<SnapshotId>& dropped) {
  if (node.snapshot) {
    TellLeaving(node);
    dropped.push_back(*node.snapshot);
    snapshots_.erase(node.snapshot_use);
  }
  nodes_.erase(node.use);
  pool_.Free({&node.page, 1});
  node.siblings->erase(node.self);
}

}  // namespace kv8
