// What the tokenizer needs to know about Unicode: character classes and NFC, at pinned versions.
//
// Token ids must not depend on which ICU a machine has, and must equal those of the `tokenizers`
// library, whose parts follow two versions of the standard: its regular expressions Unicode 16.0,
// its NFC Unicode 9.0. Later characters count as unassigned.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kv8 {

/// Classes of a character, as bits.
enum CharClass : std::uint8_t {
  kLetter = 1,      // \p{L}
  kMark = 2,        // \p{M}
  kNumber = 4,      // \p{N}
  kSpace = 8,       // \s, the White_Space property
  kNewline = 16,    // \r or \n
  kNfcActive = 32,  // NFC may move, merge or replace it
};

/// Immutable tables, built once per process from ICU (a few milliseconds). Thread-safe.
class Unicode {
 public:
  static const Unicode& Get();
  ~Unicode();

  /// CharClass bits of any code point up to U+10FFFF; 0 for an unassigned one.
  std::uint8_t ClassOf(char32_t code_point) const { return classes_[code_point]; }

  /// NFC of valid UTF-8: `text` itself when nothing changes, else a view of `storage`. Takes
  /// O(n log n) time for any text.
  std::string_view Nfc(std::string_view text, std::string& storage) const;

 private:
  struct Normalizer;  // keeps ICU out of this header

  Unicode();
  bool IsNfcInert(std::string_view text) const;
  std::string_view SortLongRuns(std::string_view text, std::string& storage) const;

  std::vector<std::uint8_t> classes_;
  std::unique_ptr<const Normalizer> normalizer_;
};

}  // namespace kv8
