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

/// Whether `text` is shorter than `marker` and may become it.
bool MayBecome(std::string_view text, std::string_view marker) {
  return text.size() < marker.size() && marker.starts_with(text);
}

std::size_t SpaceAt(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kTagSpace, at), text.size()) - at;
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

bool IsToolName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes &&
         name.find_first_of("<>\n\r") == name.npos;
}

std::vector<ToolCallEvent> ToolCallParser::Feed(std::string_view text) {
  buffer_ += text;
  while (Step()) {
  }
  return std::exchange(events_, {});
}

std::vector<ToolCallEvent> ToolCallParser::Finish() {
  ended_ = true;
  while (Step()) {
  }
  switch (state_) {
    case State::kText:
      if (text_here_ || index_ == 0 || SpaceAt(buffer_, 0) < buffer_.size()) {
        Emit(Kind::kText, buffer_);
      }
      buffer_.clear();
      break;
    case State::kTail:
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
    case State::kName:
      return StepName();
    case State::kBody:
      return StepBody();
    case State::kStart:
      return StepStart();
    case State::kValue:
      return StepValue();
    case State::kTail:
      return StepTail();
  }
  return false;
}

bool ToolCallParser::StepText() {
  std::size_t open = buffer_.find(kCallOpen);
  std::size_t held = HeldBytes(buffer_, kCallOpen, "");
  bare_ = false;
  if (opener_ == Opener::kOptional) {
    const std::size_t function = buffer_.find(kFunctionOpen);
    bare_ = function < open;
    open = std::min(open, function);
    held = std::max(held, HeldBytes(buffer_, kFunctionOpen, ""));
  }
  const bool found = open != buffer_.npos;
  const std::size_t end = found ? open : buffer_.size() - held;
  text_here_ |= SpaceAt(std::string_view(buffer_).substr(0, end), 0) < end;
  if (text_here_) {
    Emit(Kind::kText, buffer_.substr(0, end));
    buffer_.erase(0, end);
  }
  if (!found) return false;
  call_.clear();
  begun_ = false;
  TakeOfCall(text_here_ ? 0 : end);  // white space that is text only if this is no call
  TakeOfCall(bare_ ? kFunctionOpen.size() : kCallOpen.size());
  state_ = bare_ ? State::kName : State::kHead;
  return true;
}

bool ToolCallParser::StepHead() {
  TakeSpaceOfCall();
  if (MayBecome(buffer_, kFunctionOpen)) return false;
  if (!buffer_.starts_with(kFunctionOpen)) return Break();
  TakeOfCall(kFunctionOpen.size());
  state_ = State::kName;
  return true;
}

bool ToolCallParser::StepName() {
  const std::string_view name = NameAt(0);
  if (name.empty()) return MayBeNameAt(0) ? false : Break();
  if (!schemas_.Has(name)) return Break();
  if (bare_) {
    // Text that merely mentions the tag is no call, and one that was begun cannot be taken back.
    const std::size_t tag = name.size() + 1;
    const std::string_view next = At(tag + SpaceAt(buffer_, tag));
    if (MayBecome(next, kParameterOpen) || MayBecome(next, kFunctionClose)) return false;
    if (!next.starts_with(kParameterOpen) && !next.starts_with(kFunctionClose)) return Break();
  }
  BeginFunction(name);
  TakeOfCall(function_.size() + 1);
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
  for (const std::string_view tag : {kParameterOpen, kFunctionClose, kCallClose}) {
    if (MayBecome(buffer_, tag)) return false;
  }
  if (buffer_.starts_with(kParameterOpen)) return StepParameter();
  if (buffer_.starts_with(kFunctionClose)) {
    buffer_.erase(0, kFunctionClose.size());
  } else if (!buffer_.starts_with(kCallClose)) {
    return Break();
  }
  EndCall();
  return true;
}

void ToolCallParser::EndCall() {
  AddArguments(keys_.empty() ? "{}" : "}");
  Emit(Kind::kCallEnd, "");
  ++index_;
  state_ = State::kTail;
}

bool ToolCallParser::StepParameter() {
  const std::string_view key = NameAt(kParameterOpen.size());
  if (key.empty()) return MayBeNameAt(kParameterOpen.size()) ? false : Break();
  const std::size_t tag = kParameterOpen.size() + key.size() + 1;
  BeginParameter(key);
  TakeOfCall(tag);
  state_ = State::kStart;
  return true;
}

void ToolCallParser::BeginParameter(std::string_view key) {
  types_ = schemas_.TypesOf(function_, key);
  value_.clear();
  repeated_ = std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  if (repeated_) return;
  std::string json = keys_.empty() ? "{" : ", ";
  keys_.emplace_back(key);
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
  for (std::size_t at = buffer_.find('<'); at != buffer_.npos; at = buffer_.find('<', at + 1)) {
    const std::optional<bool> ends = ValueEndsAt(at);
    if (ends && !*ends) continue;
    // One line break before a marker belongs to it.
    const std::size_t end = at > 0 && buffer_[at - 1] == '\n' ? at - 1 : at;
    AddToValue(std::string_view(buffer_).substr(0, end));
    if (!ends) {
      TakeOfCall(end);
      return false;
    }
    EndValue();
    TakeOfCall(at);
    if (buffer_.starts_with(kParameterClose)) TakeOfCall(kParameterClose.size());
    state_ = State::kBody;
    return true;
  }
  const std::size_t sure = buffer_.size() - (buffer_.ends_with('\n') ? 1 : 0);
  AddToValue(std::string_view(buffer_).substr(0, sure));
  TakeOfCall(sure);
  return false;
}

std::optional<bool> ToolCallParser::ValueEndsAt(std::size_t at) const {
  const std::string_view rest = At(at);
  if (rest.starts_with(kParameterClose)) return true;
  if (rest.starts_with(kFunctionClose)) return FollowedBy(at + kFunctionClose.size(), kCallClose);
  if (rest.starts_with(kCallClose)) return FollowedBy(at + kCallClose.size(), kCallOpen);
  if (rest.starts_with(kParameterOpen)) {
    const std::size_t name_at = at + kParameterOpen.size();
    const std::string_view name = NameAt(name_at);
    if (name.empty() && MayBeNameAt(name_at)) return std::nullopt;
    return !name.empty() && schemas_.Takes(function_, name);
  }
  for (const std::string_view marker :
       {kParameterClose, kParameterOpen, kFunctionClose, kCallClose}) {
    if (MayBecome(rest, marker)) return std::nullopt;
  }
  return false;
}

std::optional<bool> ToolCallParser::FollowedBy(std::size_t at, std::string_view marker) const {
  const std::string_view next = At(at + SpaceAt(buffer_, at));
  if (next.starts_with(marker)) return true;
  if (next.empty() && ended_) return true;
  if (MayBecome(next, marker)) return std::nullopt;
  return false;
}

void ToolCallParser::AddToValue(std::string_view text) {
  if (repeated_) return;
  if (types_.IsText()) {
    AddArguments(EscapeJson(text));
  } else {
    value_ += text;
  }
}

void ToolCallParser::EndValue() {
  if (repeated_) return;
  if (types_.IsText()) {
    AddArguments("\"");
    return;
  }
  const auto json = JsonOfTypes(value_, types_);
  AddArguments(json ? *json : fmt::format("\"{}\"", EscapeJson(value_)));
}

bool ToolCallParser::StepTail() {
  const std::size_t space = SpaceAt(buffer_, 0);
  if (MayBecome(At(space), kCallClose)) return false;
  // The call is complete without it too.
  if (At(space).starts_with(kCallClose)) buffer_.erase(0, space + kCallClose.size());
  text_here_ = false;
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
  text_here_ = true;
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
  if (end == buffer_.npos || buffer_[end] != '>' || end - at > kMaxToolNameBytes) return {};
  return std::string_view(buffer_).substr(at, end - at);
}

bool ToolCallParser::MayBeNameAt(std::size_t at) const {
  return buffer_.find_first_of(">\n<", at) == buffer_.npos &&
         buffer_.size() - at <= kMaxToolNameBytes;
}

}  // namespace kv8
