#include "text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstring>

#include "base/utf8.h"

namespace kv8 {
namespace {

constexpr int kCodePoints = 0x110000;

// Characters in a row that NFC may move, from which they are sorted here: real text has a few, and
// ICU sorts by insertion, whose time grows with the square of their number.
constexpr std::size_t kLongRun = 64;

struct Version {
  int major;
  int minor;
  auto operator<=>(const Version&) const =
      default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads it
};
constexpr Version kClassVersion{16, 0};
constexpr Version kNfcVersion{9, 0};

struct ClassRange {
  char32_t first;
  char32_t last;
  CharClass char_class;
};

// Letters, marks and numbers that Unicode 15.1 and 16.0 added: an older ICU (72 has 15.0) does not
// know them.
constexpr auto kAddedSince15 = std::to_array<ClassRange>({
    {0x1C89, 0x1C8A, kLetter},   {0xA7CB, 0xA7CD, kLetter},   {0xA7DA, 0xA7DC, kLetter},
    {0x105C0, 0x105F3, kLetter}, {0x10D4A, 0x10D65, kLetter}, {0x10D6F, 0x10D85, kLetter},
    {0x10EC2, 0x10EC4, kLetter}, {0x11380, 0x11389, kLetter}, {0x1138B, 0x1138B, kLetter},
    {0x1138E, 0x1138E, kLetter}, {0x11390, 0x113B5, kLetter}, {0x113B7, 0x113B7, kLetter},
    {0x113D1, 0x113D1, kLetter}, {0x113D3, 0x113D3, kLetter}, {0x11BC0, 0x11BE0, kLetter},
    {0x13460, 0x143FA, kLetter}, {0x16100, 0x1611D, kLetter}, {0x16D40, 0x16D6C, kLetter},
    {0x18CFF, 0x18CFF, kLetter}, {0x1E5D0, 0x1E5ED, kLetter}, {0x1E5F0, 0x1E5F0, kLetter},
    {0x2EBF0, 0x2EE5D, kLetter}, {0x897, 0x897, kMark},       {0x10D69, 0x10D6D, kMark},
    {0x10EFC, 0x10EFC, kMark},   {0x113B8, 0x113C0, kMark},   {0x113C2, 0x113C2, kMark},
    {0x113C5, 0x113C5, kMark},   {0x113C7, 0x113CA, kMark},   {0x113CC, 0x113D0, kMark},
    {0x113D2, 0x113D2, kMark},   {0x113E1, 0x113E2, kMark},   {0x11F5A, 0x11F5A, kMark},
    {0x1611E, 0x1612F, kMark},   {0x1E5EE, 0x1E5EF, kMark},   {0x10D40, 0x10D49, kNumber},
    {0x116D0, 0x116E3, kNumber}, {0x11BF0, 0x11BF9, kNumber}, {0x16130, 0x16139, kNumber},
    {0x16D70, 0x16D79, kNumber}, {0x1CCF0, 0x1CCF9, kNumber}, {0x1E5F1, 0x1E5FA, kNumber},
});

/// The version of Unicode that assigned `code_point`.
Version AgeOf(UChar32 code_point) {
  UVersionInfo age;
  u_charAge(code_point, age);
  return {age[0], age[1]};
}

std::uint8_t GeneralClass(UChar32 code_point, UCharCategory category) {
  const std::uint32_t mask = U_MASK(category);
  std::uint8_t bits = 0;
  if (mask & U_GC_L_MASK) bits |= kLetter;
  if (mask & U_GC_M_MASK) bits |= kMark;
  if (mask & U_GC_N_MASK) bits |= kNumber;
  if (u_isUWhiteSpace(code_point)) bits |= kSpace;
  if (code_point == '\r' || code_point == '\n') bits |= kNewline;
  return bits;
}

/// The quick check of the standard (UAX 15, section 9): without such a character, text is in NFC.
bool ChangesUnderNfc(UChar32 code_point) {
  return u_getCombiningClass(code_point) != 0 ||
         u_getIntPropertyValue(code_point, UCHAR_NFC_QUICK_CHECK) != UNORM_YES;
}

/// What the enumeration of ICU's assigned ranges fills in.
struct TableBuilder {
  std::vector<std::uint8_t> classes = std::vector<std::uint8_t>(kCodePoints, 0);
  icu::UnicodeSet nfc_characters;  // those that NFC looks at

  void AddRange(UChar32 first, UChar32 limit, UCharCategory category) {
    UChar32 run_start = first;  // of consecutive characters in nfc_characters
    for (UChar32 c = first; c < limit; ++c) {
      const Version age = AgeOf(c);
      if (age <= kClassVersion) classes[c] = GeneralClass(c, category);
      if (age > kNfcVersion) {
        if (run_start < c) nfc_characters.add(run_start, c - 1);
        run_start = c + 1;
      } else if (ChangesUnderNfc(c)) {
        classes[c] |= kNfcActive;
      }
    }
    if (run_start < limit) nfc_characters.add(run_start, limit - 1);
  }
};

/// Decomposes characters and sorts the marks between two starters in O(n log n).
class MarkSorter {
 public:
  explicit MarkSorter(const icu::Normalizer2& nfc) : nfc_(nfc) {}

  /// Appends the canonical decomposition of `text`, in canonical order, to `out`.
  void Append(std::string_view text, std::string& out) {
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char c = ReadUtf8(text, at);
      at += c.length;
      const auto code_point = static_cast<UChar32>(c.code_point);
      if (!nfc_.getDecomposition(code_point, parts_)) {
        Push(code_point, out);
        continue;
      }
      for (std::int32_t i = 0; i < parts_.length(); i = parts_.moveIndex32(i, 1)) {
        Push(parts_.char32At(i), out);
      }
    }
    Flush(out);
  }

 private:
  struct Mark {
    std::uint8_t combining_class;
    UChar32 code_point;
  };

  void Push(UChar32 code_point, std::string& out) {
    const std::uint8_t combining_class = u_getCombiningClass(code_point);
    if (combining_class == 0) {
      Flush(out);
      AppendUtf8(static_cast<char32_t>(code_point), out);
    } else {
      marks_.push_back({combining_class, code_point});
    }
  }

  void Flush(std::string& out) {
    std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) {
      return a.combining_class < b.combining_class;
    });
    for (const Mark& mark : marks_) AppendUtf8(static_cast<char32_t>(mark.code_point), out);
    marks_.clear();
  }

  const icu::Normalizer2& nfc_;
  icu::UnicodeString parts_;
  std::vector<Mark> marks_;
};

UBool AddEnumeratedRange(const void* context, UChar32 first, UChar32 limit,
                         UCharCategory category) {
  const bool inert = category == U_UNASSIGNED || category == U_SURROGATE ||
                     category == U_PRIVATE_USE_CHAR;  // in no class, and the same under NFC
  if (!inert) {
    auto* builder = static_cast<TableBuilder*>(const_cast<void*>(context));
    builder->AddRange(first, limit, category);
  }
  return true;
}

}  // namespace

struct Unicode::Normalizer {
  icu::UnicodeSet characters;
  const icu::Normalizer2* nfc;  // owned by ICU
};

Unicode::Unicode() {
  TableBuilder builder;
  u_enumCharTypes(AddEnumeratedRange, &builder);
  for (const ClassRange& range : kAddedSince15) {
    for (char32_t c = range.first; c <= range.last; ++c) builder.classes[c] |= range.char_class;
  }
  builder.nfc_characters.freeze();
  UErrorCode status = U_ZERO_ERROR;
  normalizer_ = std::make_unique<const Normalizer>(
      Normalizer{builder.nfc_characters, icu::Normalizer2::getNFCInstance(status)});
  classes_ = std::move(builder.classes);
}

Unicode::~Unicode() = default;

const Unicode& Unicode::Get() {
  static const Unicode kInstance;
  return kInstance;
}

bool Unicode::IsNfcInert(std::string_view text) const {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight;
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {  // eight ASCII characters
        at += sizeof eight;
        continue;
      }
    }
    const Utf8Char c = ReadUtf8(text, at);
    if (ClassOf(c.code_point) & kNfcActive) return false;
    at += c.length;
  }
  return true;
}

/// `text`, or an equivalent of it in `storage` where long runs of marks are in their order already.
std::string_view Unicode::SortLongRuns(std::string_view text, std::string& storage) const {
  MarkSorter sorter(*normalizer_->nfc);
  std::size_t copied = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    std::size_t count = 0;
    Utf8Char c = ReadUtf8(text, at);
    for (; ClassOf(c.code_point) & kNfcActive; c = ReadUtf8(text, at)) {
      ++count;
      at += c.length;
      if (at == text.size()) break;
    }
    if (count >= kLongRun) {
      storage.append(text.substr(copied, start - copied));
      sorter.Append(text.substr(start, at - start), storage);
      copied = at;
    }
    if (at < text.size()) at += c.length;  // the character that ended the run
  }
  if (copied == 0) return text;
  return storage.append(text.substr(copied));
}

std::string_view Unicode::Nfc(std::string_view text, std::string& storage) const {
  if (IsNfcInert(text)) return text;
  std::string sorted;
  const std::string_view source = SortLongRuns(text, sorted);
  storage.clear();
  icu::StringByteSink<std::string> sink(&storage, static_cast<std::int32_t>(source.size()));
  UErrorCode status = U_ZERO_ERROR;
  const icu::FilteredNormalizer2 filtered(*normalizer_->nfc, normalizer_->characters);
  const icu::StringPiece piece(source.data(), static_cast<std::int32_t>(source.size()));
  filtered.normalizeUTF8(0, piece, sink, nullptr, status);
  return storage;
}

}  // namespace kv8
