// An arm that a server runs: what any OpenAI-compatible server can be asked.
#pragma once

#include <string>
#include <vector>

#include "client/http_client.h"
#include "kv8/error.h"
#include "proof/measurements.h"
#include "proof/verify.h"

namespace kv8 {

/// A measurement that there is none of, and why.
struct NotMeasured {
  std::string arm;
  std::string measurement;
  std::string reason;
};

/// What no server says.
std::vector<NotMeasured> NeverMeasuredOf(const std::string& arm);

class ServedArm {
 public:
  /// Asks for the model's name where `spec` has none. Errors: those of HttpClient; kInvalidArgument
  /// for a server with several models; kCorrupt for a list that is none.
  static Result<ServedArm> Connect(const ServerSpec& spec);

  const std::string& model() const { return model_; }

  /// Errors: those of HttpClient; kCorrupt for an answer without what was asked for; kCancelled.
  /// Of scores also kUnsupported, with the reason, when the server gives no log-probabilities of
  /// prompts.
  Result<ArmScores> MeasureScores(const MeasuredCorpus& corpus);
  Result<ArmOutputs> MeasureOutputs(const MeasuredCorpus& corpus);

 private:
  ServedArm(HttpClient client, std::string model)
      : client_(std::move(client)), model_(std::move(model)) {}
  /// The only choice of a completion.
  Result<Json> Complete(Json request);
  Error Bad(std::string what) const;
  Result<TextScore> ScoreText(const EvaluationItem& item);
  Result<ItemOutput> Continue(const EvaluationItem& item, const Tokenizer& tokenizer,
                              bool* from_text);

  HttpClient client_;
  std::string model_;
};

}  // namespace kv8
