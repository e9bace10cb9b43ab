// A program inside another one, without the texts in which some words occur.
#pragma once

#include "grammar/program.h"
#include "grammar/word_guard.h"

namespace kv8 {

/// Adds what reads the texts of `program` in which the guard finds no word, then returns: the entry
/// of a rule. Exact but for parts that are called in the middle of the text: they may neither begin
/// nor end inside the beginning of a word. JSON's values do not, as quotes end every string.
Pc AddGuarded(ProgramBuilder& builder, const Program& program, const WordGuard& guard);

}  // namespace kv8
