// What an engine has done so far: counters that only grow, gauges of this moment, latencies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/request.h"

namespace kv8 {

/// Observations in buckets: entry i counts those up to bounds[i], the last those above all.
struct Histogram {
  std::vector<double> bounds;  // seconds or tokens, ascending
  std::vector<std::uint64_t> counts;
  double sum = 0;
  std::uint64_t count = 0;
};

/// How rows of n-gram tables get to the model.
enum class TableAccess {
  kResident,  // they lie in memory: mapped files, or copies on a device
  kIoUring,   // read from the files when a step needs them
  kPread,     // the same, where the kernel refuses io_uring
};

/// "resident", "io_uring", "pread".
constexpr std::string_view Name(TableAccess access) {
  switch (access) {
    case TableAccess::kResident:
      return "resident";
    case TableAccess::kIoUring:
      return "io_uring";
    case TableAccess::kPread:
      return "pread";
  }
  return "";
}

/// Rows of n-gram tables; they are not counted with kResident.
struct NgramTableStatistics {
  TableAccess access = TableAccess::kResident;
  std::string refusal;            // with kPread, why there is no io_uring
  std::uint64_t rows = 0;         // wanted
  std::uint64_t cached_rows = 0;  // of these, how many were kept from earlier steps
  std::uint64_t read_rows = 0;    // read; what a step wants several times it reads once
};

/// The tier of the K/V cache in host memory; all 0 without one.
struct KvTierStatistics {
  std::uint64_t budget = 0;          // bytes
  std::uint64_t bytes = 0;           // in use now
  std::uint64_t units = 0;           // runs of pages now
  std::uint64_t contexts = 0;        // ends now from which a conversation can go on
  std::uint64_t hits = 0;            // prompts of which it supplied a beginning
  std::uint64_t hit_pages = 0;       // of these beginnings
  std::uint64_t restored_bytes = 0;  // copied to the device
  std::uint64_t written_units = 0;   // left the device
  std::uint64_t written_bytes = 0;
  std::uint64_t states_given_up = 0;  // in the middle of a conversation, for room
  std::uint64_t units_given_up = 0;   // whole
  std::uint64_t lost = 0;             // states that left the device and found no room

  // On disk; all 0 without a folder.
  bool disk_writes = false;      // else another process does, and this one reads
  std::uint64_t disk_files = 0;  // units now
  std::uint64_t disk_bytes = 0;  // of these
  std::uint64_t disk_read_units = 0;
  std::uint64_t disk_written_units = 0;
  std::uint64_t disk_refused = 0;  // files that did not hold what they said
  std::uint64_t disk_failed = 0;   // writes that failed, for want of space say
};

struct EngineStatistics {
  // Requests.
  std::uint64_t submitted = 0;
  std::uint64_t stopped = 0;  // choices by how they ended
  std::uint64_t length = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t failed = 0;
  std::uint64_t waiting = 0;  // sequences in line now, preempted ones among them
  std::uint64_t running = 0;  // sequences that hold a slot now
  std::uint64_t preemptions = 0;

  // Tokens.
  std::uint64_t prompt_tokens = 0;     // computed
  std::uint64_t cached_tokens = 0;     // supplied by the prefix cache
  std::uint64_t generated_tokens = 0;  // handed out

  std::uint64_t prefix_lookups = 0;        // prompts looked up in the prefix cache
  std::uint64_t prefix_lookup_tokens = 0;  // of those prompts
  std::uint64_t prefix_hits = 0;           // of these, how many found a usable beginning
  std::uint64_t prefix_hit_pages = 0;
  std::uint64_t prefix_snapshots = 0;  // recurrent states kept now

  // The K/V pools now; pages per layer.
  std::uint64_t pages = 0;
  std::uint64_t free_pages = 0;
  std::uint64_t cached_pages = 0;      // held by the prefix cache, alone or not
  std::uint64_t saturated_values = 0;  // clipped so far, all layers, K and V
  std::uint64_t flushed_values = 0;    // stored as 0 though they were not

  // Steps.
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  double schedule_seconds = 0;
  double run_seconds = 0;     // forward passes of the target
  double draft_seconds = 0;   // of the draft head
  double commit_seconds = 0;  // sampling, callbacks, bookkeeping

  SpeculationStats speculation;
  NgramTableStatistics ngram_table;
  KvTierStatistics kv_host;

  // One observation per request, when it is over.
  Histogram queue_seconds;    // from submission to the first row
  Histogram prefill_seconds;  // from there to the first token
  Histogram decode_seconds;   // from there to the last token; 0 with a single one
  Histogram token_seconds;    // mean between tokens of a request that has several
  Histogram request_seconds;
  Histogram request_prompt_tokens;
  Histogram request_generated_tokens;  // of all choices
  Histogram request_longest_choice;    // tokens

  // As they come.
  Histogram first_token_seconds;  // from submission; one observation per request
  Histogram inter_token_seconds;  // between two steps that gave a choice tokens
};

}  // namespace kv8
