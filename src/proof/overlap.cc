#include "proof/overlap.h"

#include <set>
#include <unordered_set>

namespace kv8 {

Result<Overlap> FindOverlap(const CorpusFile& calibration,
                            const std::vector<EvaluationItem>& evaluation,
                            const Tokenizer& tokenizer) {
  KV8_ASSIGN_OR_RETURN(const auto documents, ReadEvaluation(calibration, tokenizer));
  std::unordered_set<std::uint64_t> known;
  for (const EvaluationItem& document : documents) {
    ForEachShingle(document.ids, [&](std::uint64_t hash) { known.insert(hash); });
  }
  Overlap overlap;
  std::set<std::string> categories;
  for (std::size_t i = 0; i < evaluation.size(); ++i) {
    std::uint64_t all = 0;
    std::uint64_t shared = 0;
    ForEachShingle(evaluation[i].ids, [&](std::uint64_t hash) {
      ++all;
      shared += known.contains(hash) ? 1 : 0;
    });
    overlap.shingles += all;
    overlap.shared += shared;
    if (shared > 0) categories.insert(evaluation[i].category);
    if (shared == all) overlap.copies.push_back(i + 1);
  }
  overlap.categories.assign(categories.begin(), categories.end());
  return overlap;
}

}  // namespace kv8
