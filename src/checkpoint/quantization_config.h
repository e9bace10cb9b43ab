// What a checkpoint's configuration says of its quantisation. Tensors decide; this describes.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/module_pattern.h"
#include "checkpoint/weight_layout.h"
#include "kv8/error.h"
#include "tensor/weight.h"

namespace kv8 {

/// How some modules are said to be stored.
struct QuantizationScheme {
  std::string key;                     // where it is said, after the file
  std::string text;                    // its value there, for messages
  std::optional<WeightFormat> format;  // nullopt: one that Weight does not have
  int group = 0;                       // columns that share a scale; 0: not said
  std::optional<bool> symmetric;
};

/// What is said of one module.
struct QuantizationClaim {
  const QuantizationScheme* scheme = nullptr;  // null: none
  bool by_name = false;                        // the module is named, not just of a kind
  std::string_view ignored_by;                 // the entry that says it is left as it is
};

/// One object: quantization_config of config.json, or quantization of hf_quant_config.json.
class QuantizationConfig {
 public:
  /// `where` names file and key. Errors: kUnsupported, naming the key, for methods, widths and
  /// orders that kv8 does not read and for what changes weights (sparsity, transforms); kCorrupt
  /// for wrong types.
  static Result<QuantizationConfig> Parse(const Json& json, std::string where);

  /// Of a module that has all of these names.
  QuantizationClaim ClaimOf(std::span<const std::string_view> names) const;
  /// True when some module is said to be quantised.
  bool claims_any() const { return !named_.empty() || !targeted_.empty(); }
  std::optional<GptqZeros> gptq_zeros() const { return gptq_zeros_; }
  /// File and key.
  const std::string& where() const { return where_; }
  const std::string& ignore_key() const { return ignore_key_; }
  /// What it says that changes nothing here: the type of the K/V cache, entries that cannot be
  /// evaluated.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class QuantizationReader;
  struct Target {
    ModuleList modules;  // empty: every linear layer
    QuantizationScheme scheme;
  };

  std::string where_;
  std::string ignore_key_;
  ModuleList ignore_;
  std::vector<Target> named_;     // by name: before `ignore_`
  std::vector<Target> targeted_;  // by kind or pattern: after it
  std::optional<GptqZeros> gptq_zeros_;
  std::vector<std::string> notes_;
};

/// All such objects of a directory; none for a directory that says nothing. Errors: those of
/// ReadJsonFile and Parse.
Result<std::vector<QuantizationConfig>> LoadQuantizationConfigs(const std::filesystem::path& dir);

}  // namespace kv8
