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
  for (const EvaluationItem& item : evaluation) {
    ForEachShingle(item.ids, [&](std::uint64_t hash) {
      ++overlap.shingles;
      if (!known.contains(hash)) return;
      ++overlap.shared;
      categories.insert(item.category);
    });
  }
  overlap.categories.assign(categories.begin(), categories.end());
  return overlap;
}

}  // namespace kv8
