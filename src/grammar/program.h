// The compiled form of every constraint: a byte-level automaton with calls and counted loops.
//
// A text matches when some run from the start rule's entry to a kReturn without a caller reads
// exactly its bytes. Instructions are built backwards: each is given what follows it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv8/error.h"

namespace kv8 {

using ByteSet = std::bitset<256>;

/// Index of an instruction.
using Pc = std::uint32_t;
/// A part of the grammar that may be called from several places, itself included.
using RuleId = std::uint32_t;

inline constexpr Pc kReturnPc = 0;
inline constexpr std::uint32_t kNoLimit = UINT32_MAX;

enum class Op : std::uint8_t {
  kReturn,  // to the caller
  kBytes,   // reads one byte of sets[operand], goes on at next
  kSplit,   // goes on at next or at operand
  kCall,    // runs rule `operand`, then goes on at next
  kLoop,    // runs the body at `operand` min to max times, then goes on at next
  kGoOn,    // ends an iteration of the kLoop around it; the kLoop at `operand` counts on
};

struct Instruction {
  Op op = Op::kReturn;
  Pc next = 0;
  std::uint32_t operand = 0;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};

/// A finished grammar. Immutable.
struct Program {
  std::vector<Instruction> code;  // code[kReturnPc] is the only kReturn
  std::vector<ByteSet> sets;
  std::vector<Pc> entries;  // by rule
  Pc start = kReturnPc;
  std::vector<bool> productive;  // by pc: some text leads from there to a return

  std::array<std::uint8_t, 256> class_of{};  // bytes that no set tells apart share a class
  std::vector<std::uint8_t> class_bytes;     // one byte of each class
};

/// Limits of one grammar: what real schemas stay far below, and a bad one cannot exceed.
inline constexpr std::size_t kMaxInstructions = 200'000;
inline constexpr std::size_t kMaxRules = 20'000;

class ProgramBuilder {
 public:
  ProgramBuilder();

  /// What is added from now on is written inside so many JSON strings in one another: bytes that
  /// those must escape have their shortest escape.
  void SetQuoting(int strings) { quoting_ = strings; }
  int quoting() const { return quoting_; }

  // Each returns the entry of what it adds. Once a limit is passed they add nothing more and
  // Finish says so.
  Pc Bytes(const ByteSet& set, Pc next);
  Pc Literal(std::string_view bytes, Pc next);
  Pc Either(Pc a, Pc b);
  /// Nothing matches from there.
  Pc Nothing() { return Bytes(ByteSet(), kReturnPc); }
  Pc Call(RuleId rule, Pc next);
  /// `body` ends in kReturnPc. `max` may be kNoLimit.
  Pc Loop(Pc body, std::uint32_t min, std::uint32_t max, Pc next);

  /// A split whose first way is set later by Close: for cycles.
  Pc OpenSplit(Pc next);
  void Close(Pc split, Pc body);

  /// A place for an instruction that Set gives later: for copies of programs.
  Pc Reserve() { return Add({}); }
  void Set(Pc pc, const Instruction& instruction) {
    if (!full_) program_.code[pc] = instruction;
  }

  RuleId AddRule();
  void SetEntry(RuleId rule, Pc entry) { program_.entries[rule] = entry; }

  bool full() const { return full_; }

  /// The program that starts with `start`. Errors: kResourceExhausted above the limits;
  /// kInvalidArgument when it matches no text at all. `where` names the source.
  Result<Program> Finish(RuleId start, std::string_view where) &&;

 private:
  Pc Add(const Instruction& instruction);
  Pc AddBytes(const ByteSet& set, Pc next);
  bool IsProductive(const Instruction& i, bool counts_on) const;
  void FindProductive();
  void FindClasses();

  Program program_;
  std::unordered_map<ByteSet, std::uint32_t> set_index_;
  bool full_ = false;
  int quoting_ = 0;
};

}  // namespace kv8
