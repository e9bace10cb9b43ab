#include "checkpoint/module_pattern.h"

#include <algorithm>

namespace kv8 {

std::optional<ModulePattern> ModulePattern::Parse(std::string_view text) {
  ModulePattern pattern;
  if (text.starts_with("re:")) {
    if (!pattern.AddExpression(text.substr(3))) return std::nullopt;
    return pattern;
  }
  for (const char c : text) {
    if (c == '[') return std::nullopt;
    const Kind kind = c == '*' ? Kind::kMany : c == '?' ? Kind::kOne : Kind::kLiteral;
    pattern.elements_.push_back({kind, c});
  }
  return pattern;
}

bool ModulePattern::AddExpression(std::string_view text) {
  if (text.starts_with('^')) text.remove_prefix(1);
  const bool whole = text.ends_with('$') && !text.ends_with("\\$");
  if (whole) text.remove_suffix(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] == '.') {
      elements_.push_back({next == '*' ? Kind::kMany : Kind::kOne});
      i += next == '*' ? 1 : 0;
    } else if (text[i] == '\\' &&
               std::string_view(".-_$[]()").find(next) != std::string_view::npos) {
      elements_.push_back({Kind::kLiteral, next});
      ++i;
    } else if (std::string_view("\\*+?[](){}|^$").find(text[i]) != std::string_view::npos) {
      return false;
    } else {
      elements_.push_back({Kind::kLiteral, text[i]});
    }
  }
  if (!whole) elements_.push_back({Kind::kMany});
  return true;
}

bool ModulePattern::Matches(std::string_view module) const {
  // A later run of anything can take whatever an earlier one could: only the last is retried.
  std::size_t at = 0, name = 0, run = elements_.size(), run_name = 0;
  while (name < module.size()) {
    const bool more = at < elements_.size();
    if (more && elements_[at].kind == Kind::kMany) {
      run = at++;
      run_name = name;
    } else if (more &&
               (elements_[at].kind == Kind::kOne || elements_[at].literal == module[name])) {
      ++at;
      ++name;
    } else if (run < elements_.size()) {
      at = run + 1;
      name = ++run_name;
    } else {
      return false;
    }
  }
  return std::all_of(elements_.begin() + static_cast<std::ptrdiff_t>(at), elements_.end(),
                     [](const Element& element) { return element.kind == Kind::kMany; });
}

void ModuleList::Add(std::string_view entry) {
  if (!entry.starts_with("re:") && entry.find_first_of("*?[") == entry.npos) {
    names_.emplace(entry);
    return;
  }
  auto pattern = ModulePattern::Parse(entry);
  if (pattern) {
    patterns_.push_back({std::string(entry), std::move(*pattern)});
  } else {
    unread_.emplace_back(entry);
  }
}

std::string_view ModuleList::Find(std::span<const std::string_view> names) const {
  for (const std::string_view name : names) {
    for (std::string_view module = name; !module.empty();) {
      if (const auto found = names_.find(module); found != names_.end()) return *found;
      const auto dot = module.rfind('.');
      module = module.substr(0, dot == module.npos ? 0 : dot);
    }
    for (const Entry& entry : patterns_) {
      if (entry.pattern.Matches(name)) return entry.text;
    }
  }
  return {};
}

}  // namespace kv8
