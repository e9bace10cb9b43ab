#include "stored_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/file.h"
#include "base/sha256.h"
#include "checkpoint/tensor_types.h"
#include "family/bind_model.h"
#include "family/tensor_owner.h"
#include "scalepack/scale_names.h"
#include "scalepack/sha256sums.h"

namespace kv8 {
namespace {

std::string_view ShownOwner(std::string_view name) {
  return ParseScaleTensorName(name) ? "K/V scales" : OwnerOf(name);
}

/// Binds a model without reading a weight, and keeps the names that it asked for.
class AskedNames final : public TensorSource {
 public:
  explicit AskedNames(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  bool Has(const std::string& name) const override { return checkpoint_.Find(name) != nullptr; }
  Result<Weight> Matrix(const std::string& name, std::span<const std::int64_t> shape,
                        WeightCopies& copies) const override {
    Ask(name, shape);
    return shapes_.Matrix(name, shape, copies);
  }
  Result<std::vector<float>> Vector(const std::string& name,
                                    std::span<const std::int64_t> shape) const override {
    Ask(name, shape);
    return shapes_.Vector(name, shape);
  }

  const std::set<std::string, std::less<>>& asked() const { return asked_; }
  std::vector<std::string>& missing() const { return missing_; }

 private:
  void Ask(const std::string& name, std::span<const std::int64_t> shape) const {
    asked_.insert(name);
    const auto found = checkpoint_.CheckWeight(name, shape);
    if (!found.ok() && found.error().code == Code::kNotFound) missing_.push_back(name);
  }

  const Checkpoint& checkpoint_;
  ShapeSource shapes_{WeightFormat::kBf16};
  mutable std::set<std::string, std::less<>> asked_;
  mutable std::vector<std::string> missing_;
};

/// True for what is used without being bound: constants that were compared, scales of the cache and
/// those that a table shares.
bool IsUsedOtherwise(const Checkpoint& checkpoint, const std::string& name) {
  if (checkpoint.Find(name)->dtype == DType::kI64 && !IsWeightPart(LeafOf(name))) return true;
  return ParseScaleTensorName(name).has_value() ||
         (name.find(".ngram_embedding.weight_scale") != name.npos);
}

}  // namespace

double FormatTotals::bits_per_weight() const {
  return weights == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(weights);
}

TensorTotals TotalsOf(const Checkpoint& checkpoint) {
  TensorTotals out;
  for (const auto& [name, view] : checkpoint.tensors()) {
    for (TensorCount* group : {&out.by_dtype[std::string(Name(view.dtype))],
                               &out.by_owner[std::string(ShownOwner(name))], &out.all}) {
      ++group->count;
      group->bytes += view.bytes();
    }
  }
  return out;
}

std::vector<FormatTotals> FormatsOf(const Checkpoint& checkpoint) {
  std::map<std::tuple<std::string_view, std::string_view, int>, FormatTotals> found;
  const auto add = [&](const std::string& name, std::string_view layout, int group,
                       std::int64_t weights, std::int64_t bytes) {
    FormatTotals& format = found[{ShownOwner(name), layout, group}];
    format.owner = ShownOwner(name);
    format.layout = layout;
    format.group = group;
    ++format.matrices;
    format.weights += weights;
    format.bytes += bytes;
  };
  for (const auto& [name, stored] : checkpoint.weights()) {
    const Weight& weight = stored.weight;
    const bool plain = IsPlain(weight.format);
    if (plain && checkpoint.Find(name)->shape.size() < 2) continue;
    add(name, plain ? Name(weight.format) : stored.layout->name, weight.group,
        weight.rows * weight.cols, stored.bytes);
  }
  for (const auto& [name, view] : checkpoint.tensors()) {
    if (IsWeightPart(LeafOf(name)) || view.shape.size() < 3) continue;
    add(name, Name(view.dtype), 0, view.elements(), view.bytes());
  }
  std::vector<FormatTotals> formats;
  for (auto& [key, format] : found) formats.push_back(std::move(format));
  return formats;
}

std::string QuantisationText(const std::vector<FormatTotals>& formats) {
  std::set<std::string> layouts;
  for (const FormatTotals& format : formats) {
    if (format.layout != "BF16" && format.layout != "F16" && format.layout != "F32") {
      layouts.insert(format.layout);
    }
  }
  return layouts.empty() ? "none" : fmt::format("{}", fmt::join(layouts, ", "));
}

TensorGaps GapsOf(const Checkpoint& checkpoint) {
  const AskedNames names(checkpoint);
  TensorGaps gaps;
  // Sizes that contradict config.json are for whoever binds the weights themselves.
  if (!BindModel(checkpoint.config(), names).ok()) return gaps;
  gaps.missing = std::move(names.missing());
  for (const auto& [name, view] : checkpoint.tensors()) {
    const bool part = IsWeightPart(LeafOf(name));
    const std::string matrix = part ? fmt::format("{}weight", StemOf(name)) : name;
    if (names.asked().contains(matrix) || IsUsedOtherwise(checkpoint, name)) continue;
    gaps.extra.push_back(name);
  }
  return gaps;
}

Result<std::vector<FileSum>> VerifyFiles(const Checkpoint& checkpoint) {
  constexpr std::uint64_t kMaxSumsBytes = 16'000'000;
  std::vector<FileSum> sums;
  for (const CheckpointPart& part : checkpoint.parts()) {
    Sha256Sums listed;
    if (const auto path = part.dir / kSumsFile; PathExists(path)) {
      KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxSumsBytes));
      KV8_ASSIGN_OR_RETURN(listed, ParseSha256Sums(text, path.string()));
    }
    for (std::size_t i = 0; i < part.files; ++i) {
      const auto& file = checkpoint.files()[part.first_file + i].path();
      KV8_ASSIGN_OR_RETURN(const std::string sha256, Sha256File(file));
      const auto stated = listed.find(file.filename().string());
      if (stated != listed.end() && stated->second != sha256) {
        return Error{Code::kMismatch,
                     fmt::format("has SHA-256 {}; {} says {}", sha256, kSumsFile, stated->second),
                     file.string(), "download the file again"};
      }
      sums.push_back({file, sha256, stated != listed.end()});
    }
  }
  return sums;
}

Json ToJson(const TensorCounts& groups) {
  Json out = Json::object();
  for (const auto& [name, group] : groups) {
    out[name] = {{"count", group.count}, {"bytes", group.bytes}};
  }
  return out;
}

Json ToJson(const std::vector<FormatTotals>& formats) {
  Json out = Json::array();
  for (const FormatTotals& format : formats) {
    out.push_back({{"owner", format.owner},
                   {"layout", format.layout},
                   {"group", format.group},
                   {"matrices", format.matrices},
                   {"weights", format.weights},
                   {"bytes", format.bytes},
                   {"bits_per_weight", format.bits_per_weight()}});
  }
  return out;
}

Json ToJson(const std::vector<FileSum>& sums) {
  Json out = Json::array();
  for (const FileSum& sum : sums) {
    out.push_back({{"file", sum.file.string()}, {"sha256", sum.sha256}, {"listed", sum.listed}});
  }
  return out;
}

}  // namespace kv8
