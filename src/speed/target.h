// Something that runs requests and says when each token came: an engine here, or a server
// elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"
#include "kv8/request.h"

namespace kv8 {

/// A request of a workload. Greedy, and no stop id ends it, unless it has a schema.
struct TimedRequest {
  std::vector<TokenId> prompt;
  std::int64_t max_tokens = 0;
  std::string json_schema;  // of the output; empty: any output
};

/// What came back; times are seconds since all requests were sent.
struct TimedOutput {
  std::vector<TokenId> ids;           // without a schema
  std::string text;                   // of requests with a schema
  std::vector<double> token_seconds;  // one per token
  std::int64_t cached_tokens = 0;     // of the prompt, supplied by a prefix hit
  SpeculationStats speculation;
};

/// Asked after each step: true ends what still runs, and that is no failure.
using EnoughFn = std::function<bool(std::span<const TimedOutput> outputs)>;

class SpeedTarget {
 public:
  virtual ~SpeedTarget() = default;

  /// Sends all requests at once and waits for them. Errors: those of the requests; kCancelled when
  /// the run was interrupted.
  virtual Result<std::vector<TimedOutput>> Run(std::span<const TimedRequest> requests,
                                               const EnoughFn& enough) = 0;
  /// What its speed depends on besides the workload: see Facts in comparability.h.
  virtual Json facts() const = 0;
  /// Bytes by owner; null where it does not say.
  virtual Json memory() const = 0;
};

}  // namespace kv8
