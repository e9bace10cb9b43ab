#include "support/sequence_runner.h"

#include <algorithm>
#include <stdexcept>

#include "family/bind_model.h"
#include "model/cpu/op_sizes.h"
#include "model/forward.h"
#include "support/golden.h"
#include "support/or_throw.h"

namespace kv8::test {
namespace {

KvCache MakeCache(const Model& model, const RunnerOptions& options) {
  const auto plan = KvCachePlan::ForTokens(
      model.spec.qsa, options.kv_dtype, model.spec.KvLayers(options.with_draft), options.capacity);
  return OrThrow(KvCache::Create(plan, options.scales));
}

}  // namespace

const Checkpoint& BundledCheckpoint() {
  static const Checkpoint checkpoint = OrThrow(Checkpoint::Open(BundledModel()));
  return checkpoint;
}

SequenceRunner::SequenceRunner(const RunnerOptions& options)
    : pool_(options.threads),
      ops_(*OrThrow(FindOps(options.backend))),
      model_(
          OrThrow(BindModel(BundledCheckpoint().config(), CheckpointSource(BundledCheckpoint())))),
      scratch_(
          ops_.scratch(OpSizesOf(model_.spec, options.capacity, 1, options.capacity, pool_.size())),
          pool_.size()),
      cache_(MakeCache(model_, options)),
      workspace_(model_.spec),
      layout_(StateLayout::For(model_.spec, options.with_draft)),
      state_(layout_),
      pages_(OrThrow(PagePool(cache_.plan().pages).Allocate(cache_.plan().pages))) {}

std::int64_t SequenceRunner::stream_width() const {
  return static_cast<std::int64_t>(model_.spec.streams) * model_.spec.hidden;
}

CpuContext SequenceRunner::Context(ForwardObserver* observer) {
  return CpuContext{ops_, OpContext{pool_, scratch_.scratch()}, cache_, workspace_, observer};
}

void SequenceRunner::Run(std::span<const TokenId> ids, Phase phase, ForwardObserver* observer,
                         float* streams) {
  const auto rows = static_cast<std::int64_t>(ids.size());
  const SequenceRows sequence{0, rows, position_, phase, &state_, pages_};
  CpuSteps steps(model_.spec, Context(observer), Batch{ids, {&sequence, 1}},
                 Matrix(streams, rows, stream_width()));
  OrThrow(RunTarget(steps, model_.weights));
  position_ += rows;
}

std::vector<float> SequenceRunner::Prefill(std::span<const TokenId> ids, std::int64_t chunk,
                                           ForwardObserver* observer) {
  std::vector<float> streams(ids.size() * static_cast<std::size_t>(stream_width()));
  for (std::size_t done = 0; done < ids.size(); done += static_cast<std::size_t>(chunk)) {
    const std::size_t count = std::min(static_cast<std::size_t>(chunk), ids.size() - done);
    Run(ids.subspan(done, count), Phase::kPrefill, observer,
        streams.data() + done * static_cast<std::size_t>(stream_width()));
  }
  return streams;
}

std::vector<float> SequenceRunner::Decode(std::span<const TokenId> ids, ForwardObserver* observer) {
  std::vector<float> streams(ids.size() * static_cast<std::size_t>(stream_width()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Run(ids.subspan(i, 1), Phase::kDecode, observer,
        streams.data() + i * static_cast<std::size_t>(stream_width()));
  }
  return streams;
}

std::vector<float> SequenceRunner::DraftPrefill(std::span<const TokenId> next,
                                                std::span<const float> streams, std::int64_t chunk,
                                                ForwardObserver* observer) {
  const auto width = static_cast<std::size_t>(stream_width());
  std::vector<float> out(next.size() * width);
  for (std::size_t done = 0; done < next.size(); done += static_cast<std::size_t>(chunk)) {
    const std::size_t count = std::min(static_cast<std::size_t>(chunk), next.size() - done);
    const auto rows = static_cast<std::int64_t>(count);
    const SequenceRows sequence{0,       rows,  static_cast<std::int64_t>(done), Phase::kPrefill,
                                &state_, pages_};
    CpuSteps steps(model_.spec, Context(observer), Batch{next.subspan(done, count), {&sequence, 1}},
                   Matrix(out.data() + done * width, rows, stream_width()),
                   ConstMatrix(streams.data() + done * width, rows, stream_width()));
    OrThrow(RunDraft(steps, model_.weights));
  }
  return out;
}

std::vector<float> SequenceRunner::DraftStep(TokenId next, std::span<const float> streams,
                                             std::int64_t position) {
  std::vector<float> out(static_cast<std::size_t>(stream_width()));
  const SequenceRows sequence{0, 1, position, Phase::kDecode, &state_, pages_};
  CpuSteps steps(model_.spec, Context(nullptr), Batch{{&next, 1}, {&sequence, 1}},
                 Matrix(out.data(), 1, stream_width()),
                 ConstMatrix(streams.data(), 1, stream_width()));
  OrThrow(RunDraft(steps, model_.weights));
  return out;
}

std::vector<float> SequenceRunner::Head(std::span<const float> streams,
                                        const HyperConnectionWeights& mixer) {
  const std::int64_t rows = static_cast<std::int64_t>(streams.size()) / stream_width();
  std::vector<float> of_rows(streams.begin(), streams.end());
  std::vector<float> logits(static_cast<std::size_t>(rows * vocab()));
  CpuSteps steps(model_.spec, Context(nullptr), Matrix(of_rows.data(), rows, stream_width()),
                 Matrix(logits.data(), rows, vocab()));
  OrThrow(RunHead(steps, mixer, model_.weights.lm_head));
  return logits;
}

std::vector<float> SequenceRunner::Logits(std::span<const float> streams) {
  return Head(streams, model_.weights.mixer);
}

std::vector<float> SequenceRunner::DraftLogits(std::span<const float> streams) {
  return Head(streams, model_.weights.mtp->mixer);
}

int ArgMax(std::span<const float> values) {
  return static_cast<int>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace kv8::test
