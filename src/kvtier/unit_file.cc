#include "kvtier/unit_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/sha256.h"

namespace kv8 {
namespace {

constexpr std::string_view kMagic = "KV8UNIT1";
constexpr std::size_t kKeyBytes = 64, kNumberBytes = 8;
constexpr std::size_t kStated = kMagic.size() + 4 * kNumberBytes + 5 * kKeyBytes;
constexpr std::int64_t kMostPages = std::int64_t{1} << 26;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 34;  // of a page, of a state

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Numbers and keys of a head, in their order in the file.
struct Fields {
  std::array<std::int64_t, 4> numbers;
  std::array<std::string, 5> keys;
};

bool IsKey(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool IsSane(const UnitHead& head) {
  const auto within = [](std::int64_t value, std::int64_t low, std::int64_t high) {
    return value >= low && value <= high;
  };
  return within(head.name.first, 0, kMostPages) &&
         within(head.name.last, head.name.first + 1, kMostPages) &&
         within(head.layout.page_bytes, 1, kMostBytes) &&
         within(head.layout.state_bytes, 1, kMostBytes);
}

}  // namespace

void WriteUnitHead(const UnitHead& head, std::span<std::byte> to) {
  std::string text(kMagic);
  for (const std::int64_t number :
       {head.name.first, head.name.last, head.layout.page_bytes, head.layout.state_bytes}) {
    for (std::size_t i = 0; i < kNumberBytes; ++i) {
      text += static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i) & 0xff);
    }
  }
  text += head.binding + head.name.parent + head.name.end + head.name.exact + head.body_sha256;
  text += Sha256Hex(text);
  std::ranges::fill(to, std::byte{0});
  std::memcpy(to.data(), text.data(), text.size());
}

Result<UnitHead> ReadUnitHead(std::span<const std::byte> bytes, const std::string& where) {
  const Error corrupt{Code::kCorrupt, "the file is no unit of a K/V cache", where,
                      "delete it: what it held is computed again"};
  if (bytes.size() < kStated + kKeyBytes) return corrupt;
  const std::string_view text = TextOf(bytes);
  if (!text.starts_with(kMagic) ||
      text.substr(kStated, kKeyBytes) != Sha256Hex(text.substr(0, kStated))) {
    return corrupt;
  }
  std::size_t at = kMagic.size();
  Fields fields;
  for (std::int64_t& number : fields.numbers) {
    std::uint64_t value = 0;
    for (std::size_t i = kNumberBytes; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(text[at + i]);
    }
    number = static_cast<std::int64_t>(value);
    at += kNumberBytes;
  }
  for (std::string& key : fields.keys) {
    key = text.substr(at, kKeyBytes);
    if (!IsKey(key)) return corrupt;
    at += kKeyBytes;
  }
  const auto& [binding, parent, end, exact, body] = fields.keys;
  UnitHead head{.binding = binding,
                .name = {parent, end, exact, fields.numbers[0], fields.numbers[1]},
                .layout = {fields.numbers[2], fields.numbers[3]},
                .body_sha256 = body};
  if (!IsSane(head)) return corrupt;
  return head;
}

std::string BodySha256(std::span<const std::byte> pages, std::span<const std::byte> state) {
  Sha256 hash;
  hash.Update(pages);
  hash.Update(state);
  return hash.FinishHex();
}

}  // namespace kv8
