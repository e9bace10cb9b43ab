#include "base/marked_text.h"

#include <algorithm>

namespace kv8 {

void MarkedText::Append(std::string_view text, Author author) {
  if (text.empty()) return;
  if (text_.empty()) author_ = author;
  const Author last = runs_.empty() ? author_ : runs_.back().author;
  if (author != last) {
    if (runs_.empty()) runs_.push_back({text_.size(), author_});
    runs_.push_back({text_.size() + text.size(), author});
  } else if (!runs_.empty()) {
    runs_.back().end += text.size();
  }
  text_ += text;
}

void MarkedText::AppendPart(const MarkedText& whole, std::string_view part) {
  if (whole.runs_.empty()) return Append(part, whole.author_);
  auto at = static_cast<std::size_t>(part.data() - whole.text_.data());
  const std::size_t end = at + part.size();
  for (std::size_t run = part.empty() ? 0 : whole.RunAt(at); at < end; ++run) {
    const std::size_t stop = std::min(end, whole.runs_[run].end);
    Append(std::string_view(whole.text_).substr(at, stop - at), whole.runs_[run].author);
    at = stop;
  }
}

MarkedText MarkedText::Repeated(std::size_t times) const {
  MarkedText out;
  out.author_ = author_;
  if (text_.size() == 1 && runs_.empty()) {
    out.text_.assign(times, text_[0]);
    return out;
  }
  out.text_.reserve(text_.size() * times);
  for (std::size_t i = 0; i < times; ++i) {
    for (const Run& run : runs_) out.runs_.push_back({out.text_.size() + run.end, run.author});
    out.text_ += text_;
  }
  return out;
}

Author MarkedText::worst() const {
  if (text_.empty()) return Author::kTemplate;
  Author worst = runs_.empty() ? author_ : Author::kTemplate;
  for (const Run& run : runs_) worst = std::max(worst, run.author);
  return worst;
}

bool MarkedText::Trusted(std::size_t begin, std::size_t end, Author author) const {
  if (runs_.empty()) return author_ <= author;
  for (std::size_t run = RunAt(begin); begin < end; begin = runs_[run++].end) {
    if (runs_[run].author > author) return false;
  }
  return true;
}

std::size_t MarkedText::RunAt(std::size_t at) const {
  const auto run =
      std::upper_bound(runs_.begin(), runs_.end(), at,
                       [](std::size_t offset, const Run& r) { return offset < r.end; });
  return static_cast<std::size_t>(run - runs_.begin());
}

}  // namespace kv8
