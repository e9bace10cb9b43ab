// Reads the dialects in which tools describe a quantisation. For quantization_config.cc alone.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/config_reader.h"
#include "checkpoint/quantization_config.h"

namespace kv8 {

class QuantizationReader {
 public:
  QuantizationReader(const Json& json, QuantizationConfig& into)
      : json_(json), into_(into), fields_(json, into.where_) {}

  Result<void> Read();

 private:
  void ReadModelOpt();
  void ReadModelOptLayers(const Json& layers);
  void ReadFp8();
  void ReadCompressed();
  void ReadGroup(const std::string& name, const Json& group);
  void ReadInt4();
  void ReadGptqZeros(std::string_view method);
  void ReadAutoRoundLayers();
  void ReadCache();
  void ReadIgnored();

  QuantizationScheme SchemeOfAlgorithm(const Json& value, std::string key);
  QuantizationScheme SchemeOfWeights(const Json& weights, std::string key);
  void Refuse(std::string_view key, const Json& value, std::string_view what);

  const Json& json_;
  QuantizationConfig& into_;
  ConfigReader fields_;
};

}  // namespace kv8
