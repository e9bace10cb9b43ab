// `kv8 calibrate`: a checkpoint and a corpus in, a calibration report out.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calib/document_runner.h"
#include "calib/progress.h"
#include "checkpoint/weights_hash.h"
#include "kv8/error.h"
#include "model/loaded_model.h"
#include "scalepack/calibration_report.h"
#include "text/tokenizer.h"

namespace kv8 {

/// What the measurement runs on. Everything must outlive the call.
struct CalibrationInputs {
  const LoadedModel& model;    // with its draft head, if it has one
  const Tokenizer& tokenizer;  // the checkpoint's tokenizer.json
  DeviceKind device = DeviceKind::kCpu;
  std::string backend;  // see EngineOptions
  int threads = 1;
  std::optional<PassSize> pass;  // what the device prefers, without it; leaves no trace
};

struct CalibrationOptions {
  std::vector<std::filesystem::path> corpus;
  std::filesystem::path output;  // the unfinished run lies beside it, as PartialPath says
  /// Tokens to measure; the last document is cut to fit.
  std::optional<std::uint64_t> max_tokens;
  /// Cut every longer document to this many tokens; without it, a document above the model's
  /// positions is refused.
  std::optional<std::int64_t> truncate;
  /// Tokens of the saturation pass, from the start of the corpus; all without it. 0 leaves the pass
  /// out.
  std::optional<std::uint64_t> saturation_tokens;
  ScaleRule rule;                                   // from measured values to scales
  int held_out_percent = 0;                         // documents that no scale is fitted to; to 99
  bool restart = false;                             // forget an unfinished run
  std::chrono::milliseconds save_interval{30'000};  // 0: after every pass, between documents
  WeightsHashOptions hash;                          // of the weights, which the report is bound to
};

/// Called before a pass over the corpus and after every pass of the model. False stops the run; it
/// can go on later as after a kill.
using ProgressFn = std::function<bool(const CalibrationProgress&)>;

/// Two passes over the corpus, three with held-out documents.
///   Ranges: FP32 cache on the CPU, so that no rounding feeds back into what is measured, and FP16,
///   the widest that there is, on a GPU; all statistics of K (after norm and RoPE) and V (as
///   projected), target and draft in one run.
///   Held out: the same for documents that are held out, which the first pass leaves aside.
///   Saturation: all documents, E4M3 cache with the scales that follow from the first pass; counts
///   what the cache store really clips. Not 0 by construction: rounded K and V move the inputs of
///   later layers.
/// A run that was killed goes on where it last saved when called again with the same inputs, and
/// gives the same bytes as an uninterrupted one, whatever the number of threads and the documents
/// that share a pass.
/// Writes the report and returns it. Memory depends on the longest document, not on the corpus.
/// Errors: kAlreadyExists for the output, kNotFound for its directory, both before any work; those
/// of ScanCorpus, before the first pass; kMismatch or kCorrupt for an unfinished run of other
/// inputs; kCorrupt for values that are not finite; kInvalidArgument for a side that is zero
/// everywhere and so has no scale, and when no document is held out; kResourceExhausted for the
/// cache; kCancelled; kIo.
Result<CalibrationReport> Calibrate(const CalibrationInputs& inputs,
                                    const CalibrationOptions& options, const ProgressFn& progress);

/// Reads reports, merges them and writes the result, with `rule` in place of theirs if given; a new
/// rule forgets the saturation counts. Errors: those of ReadReport and MergeReports;
/// kAlreadyExists, kNotFound for the output, before any work; kIo.
Result<CalibrationReport> MergeReportFiles(const std::vector<std::filesystem::path>& reports,
                                           const std::filesystem::path& output,
                                           const std::optional<ScaleRule>& rule = std::nullopt);

}  // namespace kv8
