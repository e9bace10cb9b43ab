#include "text/tool_call_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/held_text.h"

namespace kv8 {
namespace {

constexpr std::string_view kCallOpen = "<tool_call>";
constexpr std::string_view kCallClose = "</tool_call>";
constexpr std::string_view kFunctionOpen = "<function=";
constexpr std::string_view kFunctionClose = "</function>";
constexpr std::string_view kParameterOpen = "<parameter=";
constexpr std::string_view kParameterClose = "</parameter>";
constexpr std::string_view kTagSpace = " \t\r\n";

/// Longest name of a function or a parameter.
constexpr std::size_t kMaxNameBytes = 256;

/// Whether `text` is shorter than `marker` and may become it.
bool MayBecome(std::string_view text, std::string_view marker) {
  return text.size() < marker.size() && marker.starts_with(text);
}

/// The inside of a JSON string. Bytes from 0x80 on stay as they are.
std::string EscapeJson(std::string_view text) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
  static constexpr std::string_view kLetters = "\"\\nrtbf";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (const std::size_t i = kEscaped.find(c); i != kEscaped.npos) {
      out += '\\';
      out += kLetters[i];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::vector<ToolCallEvent> ToolCallParser::Feed(std::string_view text) {
  buffer_ += text;
  while (Step()) {
  }
  return std::exchange(events_, {});
}

std::vector<ToolCallEvent> ToolCallParser::Finish() {
  while (Step()) {
  }
  switch (state_) {
    case State::kText:
      Emit(Kind::kText, std::exchange(buffer_, {}));
      break;
    case State::kTail:
    case State::kAfter:
      buffer_.clear();  // white space, or the beginning of </tool_call>
      break;
    default:
      TakeOfCall(buffer_.size());
      Break();
  }
  state_ = State::kText;
  return std::exchange(events_, {});
}

/// Goes one state further; false when more text is needed for that.
bool ToolCallParser::Step() {
  switch (state_) {
    case State::kText:
      return StepText();
    case State::kHead:
      return StepHead();
    case State::kBody:
      return StepBody();
    case State::kStart:
      return StepStart();
    case State::kValue:
      return StepValue();
    case State::kTail:
      return StepTail();
    case State::kAfter:
      return StepAfter();
  }
  return false;
}

bool ToolCallParser::StepText() {
  const std::size_t open = buffer_.find(kCallOpen);
  const bool found = open != buffer_.npos;
  const std::size_t end = found ? open : buffer_.size();
  const std::size_t last = buffer_.find_last_not_of(kTagSpace, end == 0 ? 0 : end - 1);
  std::size_t text_end = end == 0 || last == buffer_.npos ? 0 : last + 1;
  if (!found) text_end = buffer_.size() - HeldBytes(buffer_, kCallOpen, kTagSpace);
  Emit(Kind::kText, buffer_.substr(0, text_end));
  buffer_.erase(0, text_end);
  if (!found) return false;
  call_.clear();
  begun_ = false;
  TakeOfCall(open - text_end + kCallOpen.size());
  state_ = State::kHead;
  return true;
}

bool ToolCallParser::StepHead() {
  TakeSpaceOfCall();
  if (MayBecome(buffer_, kFunctionOpen)) return false;
  if (!buffer_.starts_with(kFunctionOpen)) return Break();
  const std::string_view name = NameAt(kFunctionOpen.size());
  if (name.empty()) return MayBeNameAt(kFunctionOpen.size()) ? false : Break();
  if (!schemas_.Has(name)) return Break();
  BeginFunction(name);
  TakeOfCall(kFunctionOpen.size() + name.size() + 1);
  state_ = State::kBody;
  return true;
}

void ToolCallParser::BeginFunction(std::string_view name) {
  function_ = name;
  keys_.clear();
  begun_ = true;
  Emit(Kind::kCallBegin, function_);
}

bool ToolCallParser::StepBody() {
  TakeSpaceOfCall();
  if (MayBecome(buffer_, kParameterOpen) || MayBecome(buffer_, kFunctionClose)) return false;
  if (buffer_.starts_with(kParameterOpen)) return StepParameter();
  if (!buffer_.starts_with(kFunctionClose)) return Break();
  AddArguments(keys_.empty() ? "{}" : "}");
  Emit(Kind::kCallEnd, "");
  ++index_;
  buffer_.erase(0, kFunctionClose.size());
  state_ = State::kTail;
  return true;
}

bool ToolCallParser::StepParameter() {
  const std::string_view key = NameAt(kParameterOpen.size());
  if (key.empty()) return MayBeNameAt(kParameterOpen.size()) ? false : Break();
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) return Break();
  BeginParameter(key);
  TakeOfCall(kParameterOpen.size() + keys_.back().size() + 1);
  state_ = State::kStart;
  return true;
}

void ToolCallParser::BeginParameter(std::string_view key) {
  std::string json = keys_.empty() ? "{" : ", ";
  keys_.emplace_back(key);
  types_ = schemas_.TypesOf(function_, key);
  value_.clear();
  json += fmt::format("\"{}\": {}", EscapeJson(key), types_.IsText() ? "\"" : "");
  AddArguments(json);
}

bool ToolCallParser::StepStart() {
  if (buffer_.empty()) return false;
  if (buffer_.starts_with('\n')) TakeOfCall(1);
  state_ = State::kValue;
  return true;
}

bool ToolCallParser::StepValue() {
  const std::size_t close = buffer_.find(kParameterClose);
  if (close == buffer_.npos) {
    // At most one line break belongs to the marker.
    std::size_t sure = buffer_.size() - HeldBytes(buffer_, kParameterClose, "");
    if (sure > 0 && buffer_[sure - 1] == '\n') --sure;
    AddToValue(std::string_view(buffer_).substr(0, sure));
    TakeOfCall(sure);
    return false;
  }
  const bool line_break = close > 0 && buffer_[close - 1] == '\n';
  AddToValue(std::string_view(buffer_).substr(0, close - (line_break ? 1 : 0)));
  EndValue();
  TakeOfCall(close + kParameterClose.size());
  state_ = State::kBody;
  return true;
}

void ToolCallParser::AddToValue(std::string_view text) {
  if (types_.IsText()) {
    AddArguments(EscapeJson(text));
  } else {
    value_ += text;
  }
}

void ToolCallParser::EndValue() {
  if (types_.IsText()) {
    AddArguments("\"");
    return;
  }
  const auto json = JsonOfTypes(value_, types_);
  AddArguments(json ? *json : fmt::format("\"{}\"", EscapeJson(value_)));
}

bool ToolCallParser::StepTail() {
  buffer_.erase(0, std::min(buffer_.find_first_not_of(kTagSpace), buffer_.size()));
  if (MayBecome(buffer_, kCallClose)) return false;
  // The call is complete without it too.
  if (buffer_.starts_with(kCallClose)) buffer_.erase(0, kCallClose.size());
  state_ = State::kAfter;
  return true;
}

bool ToolCallParser::StepAfter() {
  buffer_.erase(0, std::min(buffer_.find_first_not_of(kTagSpace), buffer_.size()));
  if (buffer_.empty()) return false;
  state_ = State::kText;
  return true;
}

bool ToolCallParser::Break() {
  if (begun_) {
    Emit(Kind::kCallBroken, std::exchange(call_, {}));
    ++index_;
  } else {
    Emit(Kind::kText, std::exchange(call_, {}));
  }
  state_ = State::kText;
  return true;
}

void ToolCallParser::Emit(Kind kind, std::string text) {
  if (text.empty() && (kind == Kind::kText || kind == Kind::kArguments)) return;
  if (kind == Kind::kText && !events_.empty() && events_.back().kind == Kind::kText) {
    events_.back().text += text;
    return;
  }
  events_.push_back(
      {.kind = kind, .index = kind == Kind::kText ? 0 : index_, .text = std::move(text)});
}

void ToolCallParser::AddArguments(std::string_view json) {
  if (!events_.empty() && events_.back().kind == Kind::kArguments) {
    events_.back().text += json;
  } else {
    Emit(Kind::kArguments, std::string(json));
  }
}

void ToolCallParser::TakeOfCall(std::size_t count) {
  call_.append(buffer_, 0, count);
  buffer_.erase(0, count);
}

void ToolCallParser::TakeSpaceOfCall() {
  TakeOfCall(std::min(buffer_.find_first_not_of(kTagSpace), buffer_.size()));
}

std::string_view ToolCallParser::NameAt(std::size_t at) const {
  const std::size_t end = buffer_.find_first_of(">\n<", at);
  if (end == buffer_.npos || buffer_[end] != '>' || end - at > kMaxNameBytes) return {};
  return std::string_view(buffer_).substr(at, end - at);
}

bool ToolCallParser::MayBeNameAt(std::size_t at) const {
  return buffer_.find_first_of(">\n<", at) == buffer_.npos && buffer_.size() - at <= kMaxNameBytes;
}

}  // namespace kv8
