// Progress of hashing and writing weights, for people.
#pragma once

#include <cstdint>
#include <functional>

#include "output.h"

namespace kv8 {

/// Says what is being done when there is enough of it to wait for, then how far it is every few
/// seconds, and the rate at the end. Stops on an interrupt where those are caught.
std::function<bool(std::uint64_t done, std::uint64_t all)> ShowHashing(NoteSink note = Note);

/// The same for writing.
std::function<bool(std::uint64_t done, std::uint64_t all)> ShowWriting(NoteSink note = Note);

}  // namespace kv8
