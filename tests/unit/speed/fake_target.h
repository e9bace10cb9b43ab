// A target whose tokens come when the test says.
#pragma once

#include <vector>

#include "speed/target.h"

namespace kv8::test {

/// Request i has its first token at `starts[i]` and one each `step` seconds from then on, until
/// `enough` says so or it has all it asked for.
class FakeTarget final : public SpeedTarget {
 public:
  std::vector<double> starts;
  double step = 0.5;
  std::int64_t cached_tokens = 0;
  std::vector<std::vector<TokenId>> prompts;  // seen

  Result<std::vector<TimedOutput>> Run(std::span<const TimedRequest> requests,
                                       const EnoughFn& enough) override {
    std::vector<TimedOutput> outputs(requests.size());
    for (const TimedRequest& request : requests) prompts.push_back(request.prompt);
    for (double now = 0; !Done(requests, outputs); now += step) {
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (now < starts[i] || std::ssize(outputs[i].ids) == requests[i].max_tokens) continue;
        outputs[i].ids.push_back(7);
        outputs[i].token_seconds.push_back(now);
        outputs[i].cached_tokens = cached_tokens;
      }
      if (enough(outputs)) break;
    }
    return outputs;
  }
  Json facts() const override { return {}; }
  Json memory() const override { return {}; }

 private:
  static bool Done(std::span<const TimedRequest> requests,
                   const std::vector<TimedOutput>& outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (std::ssize(outputs[i].ids) < requests[i].max_tokens) return false;
    }
    return true;
  }
};

}  // namespace kv8::test
