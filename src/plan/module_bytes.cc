#include "plan/module_bytes.h"

#include <algorithm>
#include <initializer_list>
#include <span>

namespace kv8 {
namespace {

class Counter {
 public:
  void Enter(WeightModule module, bool draft) {
    module_ = module;
    draft_ = draft;
  }
  void Matrix(const Weight& weight) {
    Add({module_, draft_, false, weight.format, weight.bytes(), weight.rows * weight.cols});
  }
  void Table(const Weight& weight) { Matrix(weight); }
  void Experts(std::initializer_list<std::vector<Weight>*> parts) {
    for (const std::vector<Weight>* const part : parts) {
      for (const Weight& expert : *part) Matrix(expert);
    }
  }
  void Vector(std::span<const float> vector) {
    Add({module_, draft_, true, WeightFormat::kFp32, static_cast<std::int64_t>(vector.size_bytes()),
         0});
  }

  std::vector<ModuleBytes> rows;

 private:
  void Add(const ModuleBytes& more) {
    if (more.bytes == 0) return;
    const auto row = std::ranges::find_if(rows, [&more](const ModuleBytes& r) {
      return r.module == more.module && r.draft == more.draft && r.format == more.format &&
             r.vectors == more.vectors;
    });
    if (row == rows.end()) {
      rows.push_back(more);
    } else {
      row->bytes += more.bytes;
      row->values += more.values;
    }
  }

  WeightModule module_{};
  bool draft_ = false;
};

}  // namespace

std::string_view Name(WeightModule module) {
  switch (module) {
    case WeightModule::kEmbeddings:
      return "embeddings";
    case WeightModule::kNgramTable:
      return "ngram_table";
    case WeightModule::kNgramProjections:
      return "ngram_projections";
    case WeightModule::kHyperConnections:
      return "hyper_connections";
    case WeightModule::kLinearAttention:
      return "linear_attention";
    case WeightModule::kAttention:
      return "attention";
    case WeightModule::kRouter:
      return "router";
    case WeightModule::kExperts:
      return "experts";
    case WeightModule::kSharedExpert:
      return "shared_expert";
    case WeightModule::kDraftProjections:
      return "draft_projections";
    case WeightModule::kHead:
      return "head";
  }
  return "";
}

std::vector<ModuleBytes> BytesByModule(ModelWeights& weights, bool with_draft) {
  Counter counter;
  WeightVisit<Counter>{counter}(weights);
  if (!with_draft) std::erase_if(counter.rows, [](const ModuleBytes& row) { return row.draft; });
  std::ranges::stable_sort(counter.rows, [](const ModuleBytes& a, const ModuleBytes& b) {
    return a.draft != b.draft ? b.draft : a.module < b.module;
  });
  return std::move(counter.rows);
}

}  // namespace kv8
