// Heads of units' files: any bytes give a value or an error, and what is accepted is written as it
// was read. Also with a hash that is right, so that what comes after that check is reached.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "kvtier/unit_file.h"

namespace {

constexpr std::size_t kStated = 360, kHash = 64;

void Check(const std::vector<std::byte>& bytes) {
  const auto head = kv8::ReadUnitHead(bytes, "fuzz");
  if (!head.ok()) return;
  std::vector<std::byte> again(kv8::IoBuffer::kBytes);
  kv8::WriteUnitHead(*head, again);
  if (!std::equal(again.begin(), again.begin() + kStated + kHash, bytes.begin())) std::abort();
  if (head->file_bytes() <= 0 || head->name.pages() <= 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  Check(bytes);
  bytes.resize(kv8::IoBuffer::kBytes);
  const std::string_view stated(reinterpret_cast<const char*>(bytes.data()), kStated);
  const std::string hash = kv8::Sha256Hex(stated);
  std::memcpy(bytes.data() + kStated, hash.data(), kHash);
  Check(bytes);
  return 0;
}
