#include "support/golden.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace kv8::test {
namespace {

std::filesystem::path GoldenDir() {
  return SourceDir() / "tests/golden";
}

SafetensorsFile OpenOrThrow(std::string_view name) {
  auto file = SafetensorsFile::Open(GoldenDir() / (std::string(name) + ".safetensors"));
  if (!file.ok()) throw std::runtime_error(file.error().ToString());
  return std::move(file).value();
}

}  // namespace

Golden::Golden(std::string_view name) : file_(OpenOrThrow(name)) {}

bool Golden::Has(std::string_view tensor) const {
  return file_.content().tensors.contains(tensor);
}

template <class T>
std::vector<T> Golden::Read(std::string_view tensor, DType dtype) const {
  const auto found = file_.content().tensors.find(tensor);
  if (found == file_.content().tensors.end() || found->second.dtype != dtype) {
    throw std::runtime_error("golden file lacks " + std::string(tensor));
  }
  std::vector<T> values(static_cast<std::size_t>(found->second.elements()));
  std::memcpy(values.data(), found->second.data, values.size() * sizeof(T));
  return values;
}

std::vector<float> Golden::Floats(std::string_view tensor) const {
  return Read<float>(tensor, DType::kF32);
}
std::vector<std::int32_t> Golden::Ints(std::string_view tensor) const {
  return Read<std::int32_t>(tensor, DType::kI32);
}
std::vector<std::uint8_t> Golden::Bytes(std::string_view tensor) const {
  return Read<std::uint8_t>(tensor, DType::kU8);
}

std::vector<std::string> Golden::Names(bool edge) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenDir())) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() == ".safetensors" && stem.starts_with("edge_") == edge)
      names.push_back(stem);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace kv8::test
