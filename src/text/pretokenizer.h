// Splits text into the pieces that BPE merges within, as the checkpoint's regular expression does.
//
// A general regex engine is too slow here, so the expressions of the model family are written out
// by hand. In both, W is what a word is made of and P is [^\s W \p{N}]:
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?W+ | \p{N} | ?P+[\r\n]* | \s*[\r\n]+
//   | \s+(?!\S) | \s+
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/unicode.h"

namespace kv8 {

/// One supported expression and what tells it from the others.
struct SplitRule {
  std::string_view regex;     // exactly as tokenizer.json spells it
  std::uint8_t word_classes;  // W, as CharClass bits
};

/// The rule with this expression; nullptr when it is not one of the supported ones.
const SplitRule* FindSplitRule(std::string_view regex);

/// Walks over valid UTF-8, which must outlive it. The pieces cover the text without gaps.
class PieceScanner {
 public:
  PieceScanner(std::string_view text, const SplitRule& rule, const Unicode& unicode)
      : text_(text),
        unicode_(unicode),
        word_(rule.word_classes),
        not_symbol_(static_cast<std::uint8_t>(kSpace | kNumber | rule.word_classes)) {}

  /// The next piece; empty at the end of the text.
  std::string_view Next();

 private:
  struct Char {
    std::uint8_t classes;
    std::size_t length;
  };

  bool IsWord(Char c) const { return c.classes & word_; }
  bool IsSymbol(Char c) const { return c.length > 0 && !(c.classes & not_symbol_); }

  Char At(std::size_t at) const;
  std::size_t PieceEnd(std::size_t start) const;
  std::size_t ContractionEnd(std::size_t start) const;
  std::size_t WordEnd(std::size_t at) const;
  std::size_t SymbolsEnd(std::size_t at) const;
  std::size_t SpaceEnd(std::size_t start) const;

  std::string_view text_;
  const Unicode& unicode_;
  std::uint8_t word_;
  std::uint8_t not_symbol_;
  std::size_t at_ = 0;
};

}  // namespace kv8
