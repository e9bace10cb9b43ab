// An OpenAI-compatible server as a target.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/http_client.h"
#include "speed/target.h"
#include "text/tokenizer.h"

namespace kv8 {

/// Sends prompts as token ids to /v1/completions, streamed, each on a connection of its own. Tokens
/// are counted by the `usage` at the end of a stream and spread over its events, as a server may
/// put several into one. What it does not say (routes, partition, memory, drafts) is absent.
class ServerTarget final : public SpeedTarget {
 public:
  /// `model` as in /v1/models; empty: the first one there. `tokenizer` is that of the served model:
  /// answers are read with it. Errors: those of HttpClient; kNotFound for a server without models.
  static Result<std::unique_ptr<ServerTarget>> Create(const std::string& url, std::string model,
                                                      ClientOptions client, std::string prompts,
                                                      std::shared_ptr<const Tokenizer> tokenizer);

  /// Runs all requests to their ends: closing a stream would lose its usage.
  Result<std::vector<TimedOutput>> Run(std::span<const TimedRequest> requests,
                                       const EnoughFn& enough) override;
  Json facts() const override;
  Json memory() const override { return {}; }

 private:
  ServerTarget(std::string url, ClientOptions client, std::string prompts,
               std::shared_ptr<const Tokenizer> tokenizer)
      : url_(std::move(url)),
        client_(std::move(client)),
        prompts_(std::move(prompts)),
        tokenizer_(std::move(tokenizer)) {}

  Json BodyOf(const TimedRequest& request) const;
  Result<void> Connect(std::size_t count);

  std::string url_;
  std::string model_;
  ClientOptions client_;
  std::string prompts_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<HttpClient> connections_;  // one per request of the largest run so far
};

}  // namespace kv8
