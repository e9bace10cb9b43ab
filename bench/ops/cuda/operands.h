// Operands of ops at the released model's dimensions.
#pragma once

#include "bench_device.h"

namespace kv8::bench {

/// The experts of a layer for `rows` rows: random weights and x, scratch.
cuda::MoeArgs ExpertOperands(BenchDevice& b, std::int64_t rows);

/// How many experts the last call of it used.
int ActiveExperts(BenchDevice& b, const cuda::MoeArgs& args);

/// Bytes of the weights that a call of it reads once: router, shared expert, `active` experts.
double ExpertBytes(int active);

/// Sequences of `context` tokens whose pages lie scattered in pools of `pages` pages.
struct Sequences {
  cuda::PageTables tables;
  std::int64_t pages;
};
Sequences MakeSequences(BenchDevice& b, std::int64_t count, std::int64_t context);

/// A pool of one layer with finite K and V of about 1.
cuda::KvPoolView KvPool(BenchDevice& b, std::int64_t pages, cuda::KvElement type);
cuda::IndexPoolView IndexPool(BenchDevice& b, std::int64_t pages);

/// The functions below leave out which rows or slices a call is for. What they read is random, and
/// all memory is their own: a caller that joins ops puts one's output in the place of another's
/// input.

/// A GDN layer's recurrence over `rows` rows, with a state for each of `slots`.
cuda::GdnArgs GdnOperands(BenchDevice& b, std::int64_t rows, std::int64_t slots,
                          std::int64_t slices);

/// Into `kv` and `index`, of sequences with rings of their own.
cuda::QsaStoreArgs StoreOperands(BenchDevice& b, const cuda::RowsView& rows,
                                 const cuda::PageTables& tables, const cuda::KvPoolView& kv,
                                 const cuda::IndexPoolView& index);

/// Over all of `context` tokens.
cuda::SelectBlocksArgs SelectOperands(BenchDevice& b, std::int64_t rows,
                                      const cuda::PageTables& tables,
                                      const cuda::IndexPoolView& index, std::int64_t context);

/// Over full budgets; the chosen selection blocks are still to be set.
cuda::SparseAttentionArgs AttentionOperands(BenchDevice& b, std::int64_t rows,
                                            const cuda::PageTables& tables,
                                            const cuda::KvPoolView& kv);

/// The most likely of `logits`, [rows,kVocab].
cuda::ArgmaxArgs ArgmaxOperands(BenchDevice& b, std::int64_t rows, const float* logits);
/// What `best` leaves to be drawn, by the same rule for each row.
cuda::ChooseTokensArgs ChoiceOperands(BenchDevice& b, const cuda::ArgmaxArgs& best,
                                      const ChoiceRule& rule);

}  // namespace kv8::bench
