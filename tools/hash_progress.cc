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

}  // namespace

std::function<bool(std::uint64_t, std::uint64_t)> ShowHashing(NoteSink note) {
  return [note = std::move(note), start = Clock::now(), told = Clock::now()](
             std::uint64_t done, std::uint64_t all) mutable {
    if (all < kWorthTelling) return !Interrupted();
    const auto now = Clock::now();
    const double total = static_cast<double>(all) / kGigabyte;
    if (done == 0) {
      start = told = now;
      note(fmt::format("hashing {:.1f} GB of weights, once; the result is recorded", total));
    } else if (done == all) {
      const double seconds = std::chrono::duration<double>(now - start).count();
      note(fmt::format("hashed {:.1f} GB in {:.0f} s, {:.1f} GB/s", total, seconds,
                       total / seconds));
    } else if (now - told >= kInterval) {
      told = now;
      note(fmt::format("hashed {:.1f} of {:.1f} GB", static_cast<double>(done) / kGigabyte, total));
    }
    return !Interrupted();
  };
}

}  // namespace kv8
