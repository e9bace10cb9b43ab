#include "ops/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

TEST(OpTable, EveryBackendIsComplete) {
  for (const char* name : {"simd", "reference"}) {
    const Result<const OpTable*> ops = FindOps(name);
    ASSERT_TRUE(ops.ok());
    const OpTable& t = **ops;
    EXPECT_EQ(t.name, name);
    EXPECT_TRUE(t.embed && t.ple && t.grouped_rms_norm && t.head_norm_rope && t.linear &&
                t.hyper_mix && t.hyper_combine && t.gdn_prefill && t.gdn_decode && t.kv_store &&
                t.index_store && t.select_blocks && t.sparse_attention && t.moe);
  }
}

TEST(OpTable, AnUnknownNameListsTheKnownOnes) {
  const Result<const OpTable*> ops = FindOps("cuda");
  ASSERT_FALSE(ops.ok());
  EXPECT_EQ(ops.error().code, Code::kUnsupported);
  EXPECT_THAT(ops.error().ToString(), testing::HasSubstr("'cuda'"));
  EXPECT_THAT(ops.error().ToString(), testing::HasSubstr("simd, reference"));
}

}  // namespace
}  // namespace kv8
