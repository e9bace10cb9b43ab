#include "synth/model_tensors.h"

#include <fmt/format.h>

#include <set>

#include "family/bind_model.h"
#include "family/ple_constants.h"
#include "family/tensor_source.h"

namespace kv8 {
namespace {

/// Notes what the binding of a model asks for, so that no second list of tensors can differ.
class RecordingSource final : public TensorSource {
 public:
  bool Has(const std::string& name) const override { return sizes_.Has(name); }
  Result<Weight> Matrix(const std::string& name, std::span<const std::int64_t> shape,
                        WeightCopies& copies) const override {
    const TensorRole role = name.find(".ngram_embedding.") != name.npos ? TensorRole::kTable
                            : shape.size() == 3                         ? TensorRole::kExperts
                                                                        : TensorRole::kMatrix;
    Note(name, shape, role);
    return sizes_.Matrix(name, shape, copies);
  }
  Result<std::vector<float>> Vector(const std::string& name,
                                    std::span<const std::int64_t> shape) const override {
    Note(name, shape, TensorRole::kVector);
    return sizes_.Vector(name, shape);
  }
  std::vector<ModelTensor> Take() { return std::move(tensors_); }

 private:
  void Note(const std::string& name, std::span<const std::int64_t> shape, TensorRole role) const {
    // Gate and up of fused experts are asked for one after the other.
    if (names_.insert(name).second) {
      tensors_.push_back({name, {shape.begin(), shape.end()}, role});
    }
  }

  ShapeSource sizes_{WeightFormat::kBf16};
  mutable std::vector<ModelTensor> tensors_;
  mutable std::set<std::string> names_;
};

}  // namespace

Result<ModelTensors> TensorsOf(const ModelSpec& spec) {
  ModelTensors out;
  if (spec.ple) {
    for (std::size_t i = 0; i < spec.ple->layers.size(); ++i) {
      const PleConstants hash = DerivePleConstants(*spec.ple, spec.vocab, static_cast<int>(i));
      if (hash.padded_rows % spec.ple->parts != 0) {
        return Error{Code::kMismatch,
                     fmt::format("split_ngram_parts is {}, which does not divide the {} table rows",
                                 spec.ple->parts, hash.padded_rows),
                     "config.json", "make it a divisor of make_ngram_vocab_size_divisible_by"};
      }
      const auto at = fmt::format("model.layers.{}.ple.ple_embedding.", spec.ple->layers[i]);
      out.hashes.push_back({at + "layer_multipliers", hash.hash.multipliers});
      out.hashes.push_back({at + "ngram_heads_vocab_sizes", hash.hash.head_sizes});
      out.hashes.push_back({at + "ngram_heads_offsets", hash.hash.offsets});
    }
  }
  RecordingSource source;
  KV8_RETURN_IF_ERROR(BindModel(spec, source));
  out.floats = source.Take();
  return out;
}

}  // namespace kv8
