#include "grammar/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "grammar/char_set.h"

namespace kv8 {

namespace {

/// A character inside so many JSON strings in one another.
std::string Quoted(char32_t c, int strings) {
  std::string text(1, static_cast<char>(c));
  for (int i = 0; i < strings; ++i) {
    std::string outer;
    for (const char inner : text)
      outer += Written(static_cast<char32_t>(inner), TextForm::kJsonString);
    text = std::move(outer);
  }
  return text;
}

}  // namespace

ProgramBuilder::ProgramBuilder() {
  program_.code.emplace_back();
}

Pc ProgramBuilder::Add(const Instruction& instruction) {
  if (program_.code.size() >= kMaxInstructions) {
    full_ = true;
    return kReturnPc;
  }
  program_.code.push_back(instruction);
  return static_cast<Pc>(program_.code.size() - 1);
}

Pc ProgramBuilder::Bytes(const ByteSet& set, Pc next) {
  if (quoting_ == 0) return AddBytes(set, next);
  ByteSet plain = set;
  std::optional<Pc> escapes;
  for (const CharRange& range : JsonEscaped().ranges()) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      if (!set[c]) continue;
      plain.reset(c);
      const std::string text = Quoted(c, quoting_);
      Pc way = next;
      for (std::size_t i = text.size(); i > 0; --i) {
        way = AddBytes(ByteSet().set(static_cast<unsigned char>(text[i - 1])), way);
      }
      escapes = escapes ? Either(way, *escapes) : way;
    }
  }
  if (!escapes) return AddBytes(plain, next);
  return plain.none() ? *escapes : Either(AddBytes(plain, next), *escapes);
}

Pc ProgramBuilder::AddBytes(const ByteSet& set, Pc next) {
  const auto index = static_cast<std::uint32_t>(program_.sets.size());
  const auto [known, is_new] = set_index_.emplace(set, index);
  if (is_new) program_.sets.push_back(set);
  return Add({.op = Op::kBytes, .next = next, .operand = known->second});
}

Pc ProgramBuilder::Literal(std::string_view bytes, Pc next) {
  for (std::size_t i = bytes.size(); i > 0 && !full_; --i) {
    next = Bytes(ByteSet().set(static_cast<unsigned char>(bytes[i - 1])), next);
  }
  return next;
}

Pc ProgramBuilder::Either(Pc a, Pc b) {
  return Add({.op = Op::kSplit, .next = a, .operand = b});
}

Pc ProgramBuilder::Call(RuleId rule, Pc next) {
  return Add({.op = Op::kCall, .next = next, .operand = rule});
}

Pc ProgramBuilder::Loop(Pc body, std::uint32_t min, std::uint32_t max, Pc next) {
  return Add({.op = Op::kLoop, .next = next, .operand = body, .min = min, .max = max});
}

Pc ProgramBuilder::OpenSplit(Pc next) {
  return Either(next, next);
}

void ProgramBuilder::Close(Pc split, Pc body) {
  if (!full_) program_.code[split].operand = body;
}

RuleId ProgramBuilder::AddRule() {
  if (program_.entries.size() >= kMaxRules) {
    full_ = true;
    return 0;
  }
  program_.entries.push_back(kReturnPc);
  return static_cast<RuleId>(program_.entries.size() - 1);
}

/// Whether `i` leads to a return when exactly the productive ones of the others do. `counts_on`:
/// loops count on for each other.
bool ProgramBuilder::IsProductive(const Instruction& i, bool counts_on) const {
  const std::vector<bool>& good = program_.productive;
  switch (i.op) {
    case Op::kReturn:
      return true;
    case Op::kBytes:
      return good[i.next] && program_.sets[i.operand].any();
    case Op::kSplit:
      return good[i.next] || good[i.operand];
    case Op::kCall:
      return good[i.next] && good[program_.entries[i.operand]];
    case Op::kLoop:
      // The body of one may lead to the end of another; AddGuarded has left out what the counts
      // forbid.
      if (counts_on) return good[i.next] || good[i.operand];
      return good[i.next] && (i.min == 0 || good[i.operand]);
    case Op::kGoOn:
      return good[i.operand];
  }
  return false;
}

/// The least set that holds kReturnPc and every instruction that leads into it.
void ProgramBuilder::FindProductive() {
  const auto& code = program_.code;
  std::vector<bool>& good = program_.productive;
  good.assign(code.size(), false);
  const bool counts_on =
      std::any_of(code.begin(), code.end(), [](const Instruction& i) { return i.op == Op::kGoOn; });
  std::vector<std::vector<Pc>> users(code.size());
  for (Pc pc = 1; pc < code.size(); ++pc) {
    const Instruction& i = code[pc];
    users[i.next].push_back(pc);
    if (i.op == Op::kCall) users[program_.entries[i.operand]].push_back(pc);
    if (i.op == Op::kSplit || i.op == Op::kLoop || i.op == Op::kGoOn)
      users[i.operand].push_back(pc);
  }
  std::vector<Pc> reached = {kReturnPc};
  good[kReturnPc] = true;
  while (!reached.empty()) {
    const Pc pc = reached.back();
    reached.pop_back();
    for (const Pc user : users[pc]) {
      if (good[user] || !IsProductive(code[user], counts_on)) continue;
      good[user] = true;
      reached.push_back(user);
    }
  }
}

/// Refines one class of all bytes by every set.
void ProgramBuilder::FindClasses() {
  std::array<std::uint8_t, 256>& class_of = program_.class_of;
  for (const ByteSet& set : program_.sets) {
    std::array<int, 512> renamed;
    renamed.fill(-1);
    int classes = 0;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      int& name = renamed[std::size_t{2} * class_of[byte] + (set[byte] ? 1 : 0)];
      if (name < 0) name = classes++;
      class_of[byte] = static_cast<std::uint8_t>(name);
    }
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (class_of[byte] == program_.class_bytes.size()) {
      program_.class_bytes.push_back(static_cast<std::uint8_t>(byte));
    }
  }
}

Result<Program> ProgramBuilder::Finish(RuleId start, std::string_view where) && {
  if (full_) {
    return Error{
        Code::kResourceExhausted,
        fmt::format("it needs more than {} instructions or {} rules", kMaxInstructions, kMaxRules),
        std::string(where), "make it smaller"};
  }
  program_.start = program_.entries[start];
  FindProductive();
  if (!program_.productive[program_.start]) {
    return Error{Code::kInvalidArgument, "no finite text satisfies it", std::string(where),
                 "allow an end to every recursion"};
  }
  FindClasses();
  return std::move(program_);
}

}  // namespace kv8
