// Which pages hold which beginnings of prompts. Knows ids only, never memory.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kv8/types.h"
#include "kvcache/page_pool.h"

namespace kv8 {

/// Id of a saved recurrent state; the engine's runner holds the state itself.
enum class SnapshotId : std::int64_t {};

/// A beginning that can be used: its K/V pages and the state after it.
struct PrefixHit {
  std::vector<PageId> pages;       // of the usable beginning
  SnapshotId snapshot{};           // valid when there are pages
  std::int64_t matched_pages = 0;  // known to the tree, usable or not
  std::vector<PageId> known;       // of these, the ones that are equal in all they depend on
};

/// A state that the tree gives up, and the beginning that it is the state after.
struct LeavingPrefix {
  SnapshotId snapshot{};
  std::uint64_t group = 0;
  std::vector<TokenId> tokens;  // of the pages, and the one after them where pages depend on it
  std::vector<PageId> pages;
  std::int64_t run_begin = 0;  // pages up to the nearest earlier point with a state; 0: none
};

/// A tree over pages of kPageTokens tokens. Nodes are found by comparing tokens, never by a hash.
///
/// K/V can be taken over page by page, recurrent state only where a snapshot was taken: a hit
/// ends at the deepest matching page that has one.
///
/// With a draft layer a page depends on one more token, because the layer's row t pairs position t
/// with token t + 1: then a node's key has that token too. Only the last page of a hit may differ
/// in it; its user must copy that page and compute the last row again.
///
/// Prompts of different groups share nothing: each group has a tree of its own. Memory is common.
///
/// Holds each page once in the pool. Least recently used nodes and snapshots go first.
class PrefixTree {
 public:
  /// `pool` must outlive the tree.
  PrefixTree(PagePool& pool, bool with_draft) : pool_(pool), with_draft_(with_draft) {}
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  /// The longest usable beginning of at most `max_pages` pages. Counts as a use.
  PrefixHit Find(std::span<const TokenId> prompt, std::int64_t max_pages, std::uint64_t group = 0);

  /// Adds the first pages.size() pages of `prompt`, which are complete and will not change.
  /// Pages that the tree has already stay as they are. The prompt must go on after them.
  void Insert(std::span<const TokenId> prompt, std::span<const PageId> pages,
              std::uint64_t group = 0);

  /// Whether the beginning of `pages` pages is in the tree and no snapshot was taken after it.
  bool WantsSnapshot(std::span<const TokenId> prompt, std::int64_t pages, std::uint64_t group = 0);
  /// Attaches one there. Requires WantsSnapshot.
  void AttachSnapshot(std::span<const TokenId> prompt, std::int64_t pages, SnapshotId snapshot,
                      std::uint64_t group = 0);
  /// Gives up the least recently used snapshot; nullopt when there is none.
  std::optional<SnapshotId> DropSnapshot();
  /// Gives up this one; false when it is gone already.
  bool DropSnapshot(SnapshotId snapshot);

  /// Whoever wants to keep what is given up for room. Called while the pages still hold it; for
  /// want of memory it may be left out. Not called for DropSnapshot(SnapshotId).
  using LeaveSink = std::function<void(const LeavingPrefix&)>;
  void OnLeave(LeaveSink sink) { on_leave_ = std::move(sink); }
  /// Tells the sink of every state, as if all were given up, least recently used first.
  void TellAll() const;

  /// Gives up pages that nobody else holds until `count` more are free in the pool or none is
  /// left. Appends the snapshots that went with them to `dropped`.
  void Evict(std::int64_t count, std::vector<SnapshotId>& dropped);

  std::int64_t pages() const { return static_cast<std::int64_t>(nodes_.size()); }
  std::vector<PageId> page_ids() const;
  std::int64_t snapshots() const { return static_cast<std::int64_t>(snapshots_.size()); }

 private:
  struct Node;
  using Key = std::vector<TokenId>;
  struct KeyLess {
    using is_transparent = void;
    bool operator()(std::span<const TokenId> a, std::span<const TokenId> b) const;
  };
  using Children = std::map<Key, std::unique_ptr<Node>, KeyLess>;
  struct Node {
    Node* parent = nullptr;  // null: of the first page
    std::uint64_t group = 0;
    Children* siblings = nullptr;  // that it is one of
    Children::iterator self;
    PageId page{};
    Children children;
    std::list<Node*>::iterator use;
    std::optional<SnapshotId> snapshot;
    std::list<Node*>::iterator snapshot_use;
  };

  /// One page of a prompt in the tree.
  struct Step {
    Node* exact = nullptr;     // equal in all tokens of its key
    Node* snapshot = nullptr;  // equal in the page's tokens, with a snapshot
  };

  std::span<const TokenId> KeyAt(std::span<const TokenId> prompt, std::int64_t page) const;
  static Step FindStep(Children& children, std::span<const TokenId> key);
  std::vector<Step> Match(std::span<const TokenId> prompt, std::int64_t max_pages,
                          std::uint64_t group);
  void Touch(std::span<Node* const> path);
  void TellLeaving(const Node& node) const;
  void Remove(Node& node, std::vector<SnapshotId>& dropped);

  PagePool& pool_;
  const bool with_draft_;
  LeaveSink on_leave_;
  std::map<std::uint64_t, Children> roots_;  // by group
  std::list<Node*> nodes_;                   // least recently used first; a child before its parent
  std::list<Node*> snapshots_;               // nodes that have one, least recently used first
};

}  // namespace kv8
