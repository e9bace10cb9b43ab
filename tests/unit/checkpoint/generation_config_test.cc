#include "checkpoint/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ParseStopIds, ReadsOneOrSeveral) {
  EXPECT_THAT(*ParseStopIds(Json{{"eos_token_id", 7}}, 8, "t"), ElementsAre(7));
  EXPECT_THAT(*ParseStopIds(Json{{"eos_token_id", {5, 0}}}, 8, "t"), ElementsAre(5, 0));
  EXPECT_THAT(*ParseStopIds(Json{{"eos_token_id", nullptr}}, 8, "t"), IsEmpty());
  EXPECT_THAT(*ParseStopIds(Json::object(), 8, "t"), IsEmpty());
}

TEST(ParseStopIds, RefusesWhatIsNoToken) {
  for (const Json& value : {Json(8), Json(-1), Json("x"), Json(1.5), Json{{1, 2}, {3}},
                            Json::object(), Json(std::uint64_t{1} << 63)}) {
    const auto ids = ParseStopIds(Json{{"eos_token_id", value}}, 8, "g.json");
    ASSERT_FALSE(ids.ok()) << value;
    EXPECT_EQ(ids.error().code, Code::kCorrupt);
    EXPECT_THAT(ids.error().where, HasSubstr("g.json: eos_token_id"));
  }
  EXPECT_FALSE(ParseStopIds(Json::array(), 8, "g.json").ok());
}

}  // namespace
}  // namespace kv8
