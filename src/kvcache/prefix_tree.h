// Which blocks hold which beginnings of prompts. Knows ids only, never memory.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kv8/types.h"
#include "kvcache/block_pool.h"

namespace kv8 {

/// Names a saved recurrent state, which somebody else keeps.
enum class SnapshotId : std::int64_t {};

/// A beginning that can be used: its K/V blocks and the state after it.
struct PrefixHit {
  std::vector<BlockId> blocks;      // of the usable beginning
  SnapshotId snapshot{};            // valid when there are blocks
  std::int64_t matched_blocks = 0;  // known to the tree, usable or not
};

/// A tree over blocks of kBlockTokens tokens. Nodes are found by comparing tokens, never by a hash.
///
/// K/V can be taken over block by block, recurrent state only where a snapshot was taken: a hit
/// ends at the deepest matching block that has one.
///
/// With a draft layer a block depends on one more token, because the layer's row t pairs position t
/// with token t + 1: then a node's key has that token too. Only the last block of a hit may differ
/// in it; its user must copy that block and compute the last row again.
///
/// Prompts of different groups share nothing: each group has a tree of its own. Memory is common.
///
/// Holds each block once in the pool. Least recently used nodes and snapshots go first.
class PrefixTree {
 public:
  /// `pool` must outlive the tree.
  PrefixTree(BlockPool& pool, bool with_draft) : pool_(pool), with_draft_(with_draft) {}
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  /// The longest usable beginning of at most `max_blocks` blocks. Counts as a use.
  PrefixHit Find(std::span<const TokenId> prompt, std::int64_t max_blocks, std::uint64_t group = 0);

  /// Adds the first blocks.size() blocks of `prompt`, which are complete and will not change.
  /// Blocks that the tree has already stay as they are. The prompt must go on after them.
  void Insert(std::span<const TokenId> prompt, std::span<const BlockId> blocks,
              std::uint64_t group = 0);

  /// Whether the beginning of `blocks` blocks is in the tree and no snapshot was taken after it.
  bool WantsSnapshot(std::span<const TokenId> prompt, std::int64_t blocks, std::uint64_t group = 0);
  /// Attaches one there. Requires WantsSnapshot.
  void AttachSnapshot(std::span<const TokenId> prompt, std::int64_t blocks, SnapshotId snapshot,
                      std::uint64_t group = 0);
  /// Gives up the least recently used snapshot; nullopt when there is none.
  std::optional<SnapshotId> DropSnapshot();
  /// Gives up this one; false when it is gone already.
  bool DropSnapshot(SnapshotId snapshot);

  /// Gives up blocks that nobody else holds until `count` more are free in the pool or none is
  /// left. Appends the snapshots that went with them to `dropped`.
  void Evict(std::int64_t count, std::vector<SnapshotId>& dropped);

  std::int64_t blocks() const { return static_cast<std::int64_t>(nodes_.size()); }
  std::vector<BlockId> block_ids() const;
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
    Children* siblings = nullptr;  // that it is one of
    Children::iterator self;
    BlockId block{};
    Children children;
    std::list<Node*>::iterator use;
    std::optional<SnapshotId> snapshot;
    std::list<Node*>::iterator snapshot_use;
  };

  /// One block of a prompt in the tree.
  struct Step {
    Node* exact = nullptr;     // equal in all tokens of its key
    Node* snapshot = nullptr;  // equal in the block's tokens, with a snapshot
  };

  std::span<const TokenId> KeyAt(std::span<const TokenId> prompt, std::int64_t block) const;
  static Step FindStep(Children& children, std::span<const TokenId> key);
  std::vector<Step> Match(std::span<const TokenId> prompt, std::int64_t max_blocks,
                          std::uint64_t group);
  void Touch(std::span<Node* const> path);
  void Remove(Node& node, std::vector<SnapshotId>& dropped);

  BlockPool& pool_;
  const bool with_draft_;
  std::map<std::uint64_t, Children> roots_;  // by group
  std::list<Node*> nodes_;                   // least recently used first; a child before its parent
  std::list<Node*> snapshots_;               // nodes that have one, least recently used first
};

}  // namespace kv8
