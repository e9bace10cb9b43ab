// Reference values of the bundled checkpoint: tests/golden/*.safetensors.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tensor/tensor_view.h"

namespace kv8::test {

/// Where the test was built from, or KV8_SOURCE_DIR of the environment: another machine's copy.
inline std::filesystem::path SourceDir() {
  const char* const dir = std::getenv("KV8_SOURCE_DIR");
  return dir != nullptr ? dir : KV8_SOURCE_DIR;
}
inline std::filesystem::path BundledModel() {
  return SourceDir() / "models/tiny-qwen4exp";
}

/// One golden file; missing tensors are a test error, so look with Has() first where they are
/// optional.
class Golden {
 public:
  explicit Golden(std::string_view name);

  bool Has(std::string_view tensor) const;
  std::vector<float> Floats(std::string_view tensor) const;
  std::vector<std::int32_t> Ints(std::string_view tensor) const;
  std::vector<std::uint8_t> Bytes(std::string_view tensor) const;

  /// Names of all golden files without the extension, sorted; `edge` picks edge_* or the others.
  static std::vector<std::string> Names(bool edge);

 private:
  template <class T>
  std::vector<T> Read(std::string_view tensor, DType dtype) const;

  SafetensorsFile file_;
};

}  // namespace kv8::test
