// What a verification reads before it measures, and what its results are bound to.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/json.h"
#include "calib/corpus_reader.h"
#include "family/checkpoint.h"
#include "kv8/error.h"
#include "proof/evaluation_corpus.h"
#include "proof/gates.h"
#include "proof/overlap.h"
#include "proof/verify.h"
#include "scalepack/kv_scales.h"
#include "text/tokenizer.h"

namespace kv8 {

struct RunInputs {
  CorpusFile corpus;
  std::vector<EvaluationItem> items;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<const Checkpoint> checkpoint;
  Json lineage;                    // of the checkpoint, as scale packs state it
  std::optional<Overlap> overlap;  // with a calibration corpus
  std::vector<Gate> gates;
};

/// Reads and checks everything that no arm can run without. Errors: see Verify.
Result<RunInputs> ReadInputs(const VerifyOptions& options);

/// Errors: those of LoadKvScales.
Result<KvScales> ScalesOf(const RunInputs& inputs, const VerifyOptions& options,
                          const ArmSpec& arm);

/// Everything that a result of an arm depends on. Errors: those of LoadKvScales.
Result<Json> IdentityOf(const RunInputs& inputs, const VerifyOptions& options, const ArmSpec& arm);
/// The same of an arm that a server runs; the checkpoint stands for its tokenizer.
Json ServedIdentityOf(const RunInputs& inputs, const std::string& url, const std::string& model);

}  // namespace kv8
