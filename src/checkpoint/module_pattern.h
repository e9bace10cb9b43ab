// Names of modules as quantisation configurations write them: plain, with wildcards, or as regular
// expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv8 {

/// A name with wildcards (* and ?), or, after "re:", a regular expression of literals, escaped
/// characters, `.`, `.*` and a final `$`, which matches from the start as Python's re.match does.
/// Matching takes time in proportion to pattern times name at most.
class ModulePattern {
 public:
  /// nullopt for an expression with anything else in it.
  static std::optional<ModulePattern> Parse(std::string_view text);
  bool Matches(std::string_view module) const;

 private:
  enum class Kind : std::uint8_t { kLiteral, kOne, kMany };
  struct Element {
    Kind kind;
    char literal = 0;
  };
  bool AddExpression(std::string_view text);

  std::vector<Element> elements_;
};

/// A list of modules.
class ModuleList {
 public:
  void Add(std::string_view entry);
  bool empty() const { return names_.empty() && patterns_.empty(); }
  /// The entry that holds a module of one of these names; a plain entry holds what is below it too.
  /// Empty when there is none.
  std::string_view Find(std::span<const std::string_view> names) const;
  /// Entries that kv8 cannot evaluate.
  const std::vector<std::string>& unread() const { return unread_; }

 private:
  struct Entry {
    std::string text;
    ModulePattern pattern;
  };
  std::set<std::string, std::less<>> names_;
  std::vector<Entry> patterns_;
  std::vector<std::string> unread_;
};

}  // namespace kv8
