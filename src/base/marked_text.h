// Text that remembers, byte by byte, who wrote it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv8 {

/// Who wrote a stretch of a prompt. Those that come later are trusted less.
enum class Author : std::uint8_t {
  kTemplate,   // the checkpoint's chat template, or whoever gives a prompt as plain text
  kAssistant,  // the model, in earlier turns
  kOther,      // users, tools, and whoever else speaks in a conversation
};

/// A string with an author for each byte.
class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(std::string text, Author author = Author::kTemplate)
      : text_(std::move(text)), author_(author) {}

  const std::string& text() const { return text_; }
  std::string Take() && { return std::move(text_); }
  std::size_t size() const { return text_.size(); }

  void Append(std::string_view text, Author author);
  void Append(const MarkedText& other) { AppendPart(other, other.text_); }
  /// `part` is a view into the text of `whole`, which is another object.
  void AppendPart(const MarkedText& whole, std::string_view part);
  MarkedText Repeated(std::size_t times) const;
  /// Text of the template.
  MarkedText& operator+=(std::string_view text) {
    Append(text, Author::kTemplate);
    return *this;
  }

  /// The least trusted of its authors; kTemplate for no text.
  Author worst() const;
  /// Whether every byte from `begin` to before `end` is trusted at least as much as `author`.
  bool Trusted(std::size_t begin, std::size_t end, Author author) const;

  /// Calls `function(std::string_view, Author)` for every run, in order.
  template <class Function>
  void ForEachRun(Function&& function) const {
    std::size_t begin = 0;
    for (const Run& run : runs_) {
      function(std::string_view(text_).substr(begin, run.end - begin), run.author);
      begin = run.end;
    }
    if (runs_.empty()) function(std::string_view(text_), author_);
  }

 private:
  struct Run {
    std::size_t end;
    Author author;
  };

  /// Index of the run that byte `at` belongs to; `runs_` is not empty.
  std::size_t RunAt(std::size_t at) const;

  std::string text_;
  Author author_ = Author::kTemplate;  // of all, while there are no runs
  std::vector<Run> runs_;              // from the second author on
};

}  // namespace kv8
