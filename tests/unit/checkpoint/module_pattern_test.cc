#include "checkpoint/module_pattern.h"

#include <gtest/gtest.h>

#include <array>

namespace kv8 {
namespace {

struct Match {
  std::string_view pattern, module;
  bool matches;
};

TEST(ModulePattern, MatchesAsThePythonsDo) {
  for (const auto& [pattern, module, matches] : std::array{
           Match{"*.mlp.gate*", "model.layers.0.mlp.gate", true},
           Match{"*.mlp.gate*", "model.layers.0.mlp.gate.x", true},
           Match{"*.mlp.gate", "model.layers.0.mlp.gate_proj", false},
           Match{"mtp.*", "mtp.layers.0", true},
           Match{"mtp.*", "model.mtp.layers.0", false},
           Match{"*a*b*c", "xaybzbc", true},
           Match{"*a*b*c", "xaybzbd", false},
           Match{"layer?", "layer1", true},
           Match{"layer?", "layer12", false},
           Match{"re:.*mlp.gate$", "model.layers.0.mlp.gate", true},
           Match{"re:.*mlp.gate$", "model.layers.0.mlp.gate_proj", false},
           Match{"re:.*self_attn.*", "model.layers.3.self_attn.k_proj", true},
           Match{"re:mtp.*", "mtp.fc_hidden", true},
           Match{"re:mtp", "mtp.fc_hidden", true},
           Match{"re:tp", "mtp.fc_hidden", false},
           Match{"re:^model\\.layers\\.1$", "model.layers.1", true},
           Match{"re:^model\\.layers\\.1$", "modelxlayersx1", false},
       }) {
    const auto parsed = ModulePattern::Parse(pattern);
    ASSERT_TRUE(parsed) << pattern;
    EXPECT_EQ(parsed->Matches(module), matches) << pattern << " " << module;
  }
}

TEST(ModulePattern, OtherExpressionsAreNotEvaluated) {
  for (const char* text :
       {"re:a|b", "re:(a)", "re:[ab]", "re:a+", "re:a*", "re:a{2}", "re:\\d", "a[bc]"}) {
    EXPECT_FALSE(ModulePattern::Parse(text)) << text;
  }
}

/// What makes backtracking matchers take forever.
TEST(ModulePattern, TakesNoLongerThanPatternTimesName) {
  std::string pattern, name(20'000, 'a');
  for (int i = 0; i < 1'000; ++i) pattern += "*a";
  EXPECT_FALSE(ModulePattern::Parse(pattern + "b")->Matches(name));
}

TEST(ModuleList, APlainEntryHoldsWhatIsBelow) {
  ModuleList list;
  list.Add("lm_head");
  list.Add("model.layers.0.mlp");
  list.Add("re:.*x.*|y");
  const auto find = [&](std::string_view name) { return list.Find(std::array{name}); };
  EXPECT_EQ(find("lm_head"), "lm_head");
  EXPECT_EQ(find("model.layers.0.mlp.gate"), "model.layers.0.mlp");
  EXPECT_EQ(find("model.layers.0.mlp2"), "");
  EXPECT_EQ(find("model"), "");
  EXPECT_EQ(list.unread(), (std::vector<std::string>{"re:.*x.*|y"}));
}

}  // namespace
}  // namespace kv8
