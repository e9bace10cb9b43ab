// What a plan says, and that an engine takes it.
#include "plan/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <numeric>
#include <string>

#include "family/checkpoint.h"
#include "plan/weight_formats.h"
#include "support/golden.h"
#include "support/make_engine.h"
#include "support/released_config.h"
#include "text/tokenizer.h"

namespace kv8 {
namespace {

constexpr std::int64_t kGiB = 1LL << 30;

/// A released model with experts in NVFP4, on GPUs of so many bytes.
PlanRequest ReleasedOn(int ranks, std::int64_t memory) {
  PlanRequest request{.spec = test::ReleasedSpec()};
  request.options.device = DeviceKind::kCuda;
  request.options.max_num_seqs = 4;
  request.options.speculative_tokens = 3;
  request.shards.tensor = ranks;
  request.devices.assign(static_cast<std::size_t>(ranks), {.name = "gpu", .memory = memory});
  return request;
}

ShapeSource Nvfp4() {
  const WeightFormats formats{ParseWeightFormat("nvfp4").value(), ParseTableFormat("fp8").value()};
  return ShapeSource([formats](const std::string& tensor) { return formats.Of(tensor); });
}

CapacityPlan PlanOf(const PlanRequest& request, KvDType dtype) {
  const auto stages = BindStages(request, Nvfp4()).value();
  return PlanCapacity(request, stages, dtype).value();
}

TEST(Capacity, FillsTheBudgetToLessThanAPage) {
  const PlanRequest request = ReleasedOn(4, 32 * kGiB);
  for (const KvDType dtype : {KvDType::kFp16, KvDType::kE4M3}) {
    const CapacityPlan plan = PlanOf(request, dtype);
    ASSERT_FALSE(plan.misfit);
    const StagePlan& rank = plan.stages.at(0);
    const std::int64_t page =
        (rank.memory.kv + rank.memory.index + rank.memory.draft_kv + rank.memory.draft_index) /
        plan.pages;
    EXPECT_LE(rank.on_device, *rank.budget);
    EXPECT_GT(rank.on_device + page, *rank.budget);
    EXPECT_EQ(plan.tokens, plan.pages * 64);
    EXPECT_EQ(rank.memory.pages, plan.pages);
  }
}

/// K/V bytes are all K/V: what E4M3 saves becomes tokens.
TEST(Capacity, E4m3HoldsAtLeast188PercentOfFp16) {
  const PlanRequest request = ReleasedOn(4, 32 * kGiB);
  const CapacityPlan fp16 = PlanOf(request, KvDType::kFp16), e4m3 = PlanOf(request, KvDType::kE4M3);
  EXPECT_GE(static_cast<double>(e4m3.tokens), 1.88 * static_cast<double>(fp16.tokens));
}

/// The pool of the published 775,096 tokens, with four sequences' states and rollbacks in it.
TEST(Capacity, InVllmsBytes) {
  const CapacityPlan e4m3 = PlanOf(ReleasedOn(4, 32 * kGiB), KvDType::kE4M3);
  const CapacityPlan fp16 = PlanOf(ReleasedOn(4, 32 * kGiB), KvDType::kFp16);
  constexpr std::int64_t kPool = 6'553'497'600;
  const std::int64_t tokens = TokensWithStates(e4m3, kPool);
  const MemoryPlan& memory = e4m3.stages.at(0).memory;
  EXPECT_EQ(tokens, (kPool - memory.states - memory.rollback) / (13 * 64 * 576) * 64);
  EXPECT_GT(tokens, 775'096);
  EXPECT_GE(static_cast<double>(tokens), 1.88 * static_cast<double>(TokensWithStates(fp16, kPool)));
  EXPECT_GE(static_cast<double>(tokens), 1.86 * 433'401);
}

TEST(Capacity, StagesShareOneNumberOfPages) {
  PlanRequest request = ReleasedOn(2, 24 * kGiB);
  request.shards.pipeline = 2;
  request.devices.resize(4, request.devices.front());
  const CapacityPlan plan = PlanOf(request, KvDType::kE4M3);
  ASSERT_FALSE(plan.misfit);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].memory.pages, plan.stages[1].memory.pages);
  EXPECT_EQ(plan.stages[0].memory.draft_kv, 0);
  EXPECT_GT(plan.stages[1].memory.draft_kv, 0);
}

TEST(Capacity, TablesLieWhereTheyAreAsked) {
  PlanRequest request = ReleasedOn(4, 64 * kGiB);
  const CapacityPlan on_device = PlanOf(request, KvDType::kE4M3);
  EXPECT_EQ(on_device.stages[0].table_in, Place::kDevice);
  request.table = Place::kHost;
  const CapacityPlan on_host = PlanOf(request, KvDType::kE4M3);
  EXPECT_EQ(on_host.stages[0].embeddings_in, Place::kDevice);
  EXPECT_GT(on_host.tokens, on_device.tokens);
  EXPECT_GE(on_host.stages[0].on_host, on_host.stages[0].ngram_table);
  request.devices.assign(4, {.name = "gpu", .memory = 32 * kGiB});
  request.table = Place::kAuto;
  EXPECT_EQ(PlanOf(request, KvDType::kE4M3).stages[0].table_in, Place::kHost);
}

TEST(Capacity, SaysWhatDoesNotFitAndWhatWould) {
  PlanRequest request = ReleasedOn(4, 23 * kGiB);
  const CapacityPlan plan = PlanOf(request, KvDType::kFp16);
  ASSERT_TRUE(plan.misfit);
  EXPECT_EQ(plan.misfit->largest, "experts");
  EXPECT_GT(plan.misfit->needed, plan.misfit->budget);
  const std::string& remedy = plan.misfit->remedy;
  EXPECT_THAT(remedy, testing::HasSubstr("--max-num-seqs 1"));
  // The remedy is one.
  request.options.max_num_seqs = 1;
  const std::size_t length = remedy.find("--max-model-len ");
  if (length != remedy.npos) request.options.max_model_len = std::stoll(remedy.substr(length + 16));
  EXPECT_FALSE(PlanOf(request, KvDType::kFp16).misfit) << remedy;
}

TEST(Capacity, ModulesAddUpToTheWeightsOnTheDevice) {
  const PlanRequest request = ReleasedOn(4, 64 * kGiB);
  const auto stages = BindStages(request, Nvfp4()).value();
  const StagePlan rank = PlanCapacity(request, stages, KvDType::kE4M3)->stages.at(0);
  std::int64_t sum = 0;
  for (const ModuleBytes& module : stages[0].modules) sum += module.bytes;
  const std::int64_t placed = rank.memory.weights + rank.memory.tables;
  EXPECT_LE(sum, placed);
  EXPECT_GT(sum + 2'000'000, placed);  // arrays begin at whole lines; the hash's constants
}

// ---- the engine

/// Anonymous bytes of this process: the weights' maps are left out.
std::int64_t AnonymousBytes() {
  ::malloc_trim(0);
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return 0;
}

/// Fills the whole context.
void FillContext(Engine& engine, std::int64_t tokens) {
  Request request;
  request.prompt.resize(static_cast<std::size_t>(tokens - 4));
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    request.prompt[i] = static_cast<TokenId>(i * 7919 % 6000 + 16);
  }
  request.max_tokens = 4;
  request.ignore_eos = true;
  ASSERT_TRUE(engine.Generate(request).ok());
}

// A sanitizer keeps memory of its own beside each allocation.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KV8_ADDRESS_SANITIZER
#endif
#endif

TEST(EngineMemory, ResidentBytesGrowByThePlanWithinOnePercent) {
#ifdef KV8_ADDRESS_SANITIZER
  GTEST_SKIP() << "the address sanitizer takes memory too";
#endif
  EngineOptions options{.model = test::BundledModel(), .kv_dtype = KvDType::kFp32, .threads = 2};
  options.tokenizer =
      std::make_shared<const Tokenizer>(Tokenizer::Load(options.model / "tokenizer.json").value());
  options.max_model_len = 128;
  FillContext(*test::MakeEngine(options), 128);  // what is taken once, whatever the plan
  options.max_model_len = 16384;
  const auto plan = Engine::Plan(options);
  ASSERT_TRUE(plan.ok());
  const std::int64_t before = AnonymousBytes();
  const auto engine = test::MakeEngine(options);
  FillContext(*engine, 16384);
  const auto grown = static_cast<double>(AnonymousBytes() - before);
  EXPECT_NEAR(grown, static_cast<double>(plan->total()), 0.01 * static_cast<double>(plan->total()));
}

TEST(EngineMemory, APlanIsTheEnginesOwn) {
  for (const int drafts : {0, 3}) {
    EngineOptions options{.model = test::BundledModel(), .threads = 2};
    options.speculative_tokens = drafts;
    options.max_num_seqs = 3;
    options.prefix_cache_memory = 8 << 20;
    const auto engine = test::MakeEngine(options);
    const Checkpoint checkpoint = Checkpoint::Open(options.model).value();
    PlanRequest request{.spec = checkpoint.config(), .options = options};
    const auto stages = BindStages(request, CheckpointSource(checkpoint)).value();
    EXPECT_TRUE(NotRunYet(request, stages).empty());
    const MemoryPlan planned = PlanCapacity(request, stages, options.kv_dtype)->stages[0].memory;
    EXPECT_EQ(planned.total(), engine->memory().total());
    EXPECT_EQ(planned.pages, engine->memory().pages);
    EXPECT_EQ(planned.scratch, engine->memory().scratch);
    EXPECT_EQ(planned.snapshots, engine->memory().snapshots);
  }
}

}  // namespace
}  // namespace kv8
