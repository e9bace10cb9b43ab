// The word that was probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kv8 {

/// The first candidate that begins with `word`, or else the one that the fewest edits (a letter
/// more, less or another) make of it; empty when even these are more than a third of its letters,
/// so that what is suggested is a misspelling and no guess.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace kv8
