#include "checkpoint/quantization_check.h"

#include <fmt/format.h>

#include <array>
#include <map>

namespace kv8 {
namespace {

std::string_view ModuleOf(std::string_view tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

/// Tensors of which one thing can be said.
struct Finding {
  std::string first;
  std::int64_t count = 0;

  void Add(std::string_view name) {
    if (count++ == 0) first = name;
  }
  std::string Text() const {
    return count == 1 ? first : fmt::format("{} and {} more", first, count - 1);
  }
};

/// Compares the matrices of a part with one configuration.
class Comparison {
 public:
  Comparison(const TensorFiles& files, const QuantizationConfig& config)
      : files_(files), config_(config) {}

  Result<void> Add(const std::string& name, const StoredWeight& stored) {
    const std::string codes = stored.CodesName(name);
    const std::string_view written = files_.WrittenName(codes);
    const std::array<std::string_view, 2> names = {ModuleOf(written), ModuleOf(name)};
    const QuantizationClaim claim = config_.ClaimOf(names);
    if (IsPlain(stored.weight.format)) {
      if (claim.scheme != nullptr && files_.Find(codes)->shape.size() == 2 && !stored.is_table)
        plain_.Add(name);
      return {};
    }
    ++quantised_;
    if (claim.scheme != nullptr && (claim.by_name || !stored.is_table)) {
      return CheckScheme(name, stored, *claim.scheme);
    }
    if (stored.is_table) {
      tables_[Name(stored.weight.format)].Add(name);
      ignored_by_ = claim.ignored_by;
      return {};
    }
    return Disagrees(
        name, stored,
        claim.ignored_by.empty()
            ? std::string("does not name it")
            : fmt::format("{} leaves it as it is ({})", config_.ignore_key(), claim.ignored_by));
  }

  Result<std::vector<std::string>> Finish(bool whole) const {
    if (whole && quantised_ == 0 && config_.claims_any()) {
      return Error{
          Code::kMismatch,
          fmt::format("says that weights are quantised, but none are; {} is plain", plain_.Text()),
          config_.where(), "check that config.json belongs to these weights"};
    }
    std::vector<std::string> lines = config_.notes();
    for (const auto& [format, finding] : tables_) {
      lines.push_back(
          fmt::format("{}: {} the n-gram table, which is {} all the same: {}", config_.where(),
                      ignored_by_.empty() ? std::string("says nothing of")
                                          : fmt::format("{} holds", config_.ignore_key()),
                      format, finding.Text()));
    }
    if (plain_.count > 0) {
      lines.push_back(fmt::format("{}: leaves out of its exceptions what is plain: {}",
                                  config_.where(), plain_.Text()));
    }
    return lines;
  }

 private:
  Error Disagrees(const std::string& name, const StoredWeight& stored,
                  std::string_view says) const {
    return Error{Code::kMismatch,
                 fmt::format("is {}, but {}: {}", stored.layout->name, config_.where(), says),
                 TensorPlace(files_.FileOf(stored.CodesName(name)).string(), name),
                 "use the configuration that belongs to these weights"};
  }

  Result<void> CheckScheme(const std::string& name, const StoredWeight& stored,
                           const QuantizationScheme& scheme) const {
    const Weight& weight = stored.weight;
    if (weight.format != scheme.format) {
      return Disagrees(name, stored, fmt::format("{} is {}", scheme.key, scheme.text));
    }
    if (scheme.group > 0 && weight.group > 0 && weight.group != scheme.group) {
      return Disagrees(name, stored,
                       fmt::format("{}: group_size is {}, its scales make it {}", scheme.key,
                                   scheme.group, weight.group));
    }
    // Containers that have to be converted always have zero points.
    const bool may_lack_zeros = weight.codes != nullptr && weight.format == WeightFormat::kInt4;
    if (may_lack_zeros && scheme.symmetric && *scheme.symmetric == stored.zero_points) {
      return Disagrees(name, stored,
                       fmt::format("{}: symmetric is {}, and there is {} weight_zero_point",
                                   scheme.key, *scheme.symmetric, stored.zero_points ? "a" : "no"));
    }
    return {};
  }

  const TensorFiles& files_;
  const QuantizationConfig& config_;
  std::int64_t quantised_ = 0;
  Finding plain_;
  std::map<std::string, Finding> tables_;
  std::string_view ignored_by_;
};

}  // namespace

Result<std::vector<std::string>> CompareQuantization(
    const TensorFiles& files, std::size_t part, const StoredWeights& weights,
    const std::vector<QuantizationConfig>& configs) {
  std::vector<std::string> lines;
  for (const QuantizationConfig& config : configs) {
    Comparison comparison(files, config);
    for (const auto& [name, stored] : weights) {
      if (files.PartOf(stored.CodesName(name)) != part) continue;
      KV8_RETURN_IF_ERROR(comparison.Add(name, stored));
    }
    KV8_ASSIGN_OR_RETURN(const auto found, comparison.Finish(files.parts().size() == 1));
    lines.insert(lines.end(), found.begin(), found.end());
  }
  return lines;
}

}  // namespace kv8
