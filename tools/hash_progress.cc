#include "hash_progress.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "interrupt.h"

namespace kv8 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kGigabyte = 1e9;
/// Less is hashed in a second or two, and nobody waits for that.
constexpr std::uint64_t kWorthTelling = 2'000'000'000;
constexpr std::chrono::seconds kInterval(5);

/// What is being done, with the size; and the word for what is done.
struct Words {
  const char* start;
  const char* done;
};

std::function<bool(std::uint64_t, std::uint64_t)> ShowBytes(Words words, NoteSink note) {
  return [words, note = std::move(note), start = Clock::now(), told = Clock::now()](
             std::uint64_t done, std::uint64_t all) mutable {
    if (all < kWorthTelling) return !Interrupted();
    const auto now = Clock::now();
    const double total = static_cast<double>(all) / kGigabyte;
    if (done == 0) {
      start = told = now;
      note(fmt::format(fmt::runtime(words.start), total));
    } else if (done == all) {
      const double seconds = std::chrono::duration<double>(now - start).count();
      note(fmt::format("{} {:.1f} GB in {:.0f} s, {:.1f} GB/s", words.done, total, seconds,
                       total / seconds));
    } else if (now - told >= kInterval) {
      told = now;
      note(fmt::format("{} {:.1f} of {:.1f} GB", words.done, static_cast<double>(done) / kGigabyte,
                       total));
    }
    return !Interrupted();
  };
}

}  // namespace

std::function<bool(std::uint64_t, std::uint64_t)> ShowHashing(NoteSink note) {
  return ShowBytes({"hashing {:.1f} GB of weights, once; the result is recorded", "hashed"},
                   std::move(note));
}

std::function<bool(std::uint64_t, std::uint64_t)> ShowWriting(NoteSink note) {
  return ShowBytes({"writing {:.1f} GB", "wrote"}, std::move(note));
}

}  // namespace kv8
