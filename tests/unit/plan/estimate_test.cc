#include "plan/estimate.h"

#include <gtest/gtest.h>

#include "family/bind_model.h"
#include "plan/measure.h"
#include "support/released_config.h"

namespace kv8 {
namespace {

struct Released {
  ModelSpec spec = test::ReleasedSpec();
  Model model = BindModel(spec, ShapeSource(WeightFormat::kBf16)).value();
  std::vector<ModuleBytes> modules = BytesByModule(model.weights, false);

  double Seconds(const PassShape& pass, const Rates& rates) const {
    return TimeOf(WorkOf(spec, modules, pass), rates).seconds;
  }
};

TEST(Estimate, OneRowReadsTheActiveWeightsOnce) {
  const Released released;
  double bytes = 0, macs = 0;
  for (const PartWork& part : WorkOf(released.spec, released.modules, {})) {
    bytes += part.bytes;
    macs += part.macs;
  }
  // About 6 G active parameters, two bytes each.
  EXPECT_GT(macs, 4.5e9);
  EXPECT_LT(macs, 7.5e9);
  EXPECT_NEAR(bytes, 2 * macs, 0.1 * bytes);
}

TEST(Estimate, TimeFollowsTheScarcerRate) {
  const Released released;
  const PassShape one{.context = 1024};
  const Rates slow{.read = 100e9, .matrix = 10e12}, reads{.read = 200e9, .matrix = 10e12},
      multiplies{.read = 100e9, .matrix = 20e12};
  EXPECT_NEAR(released.Seconds(one, reads) / released.Seconds(one, slow), 0.5, 0.01);
  EXPECT_NEAR(released.Seconds(one, multiplies) / released.Seconds(one, slow), 1, 0.01);
  // Rows read their caches whatever is multiplied.
  const PassShape prompt{.rows = 65536, .context = 512};
  EXPECT_LT(released.Seconds(prompt, multiplies), 0.65 * released.Seconds(prompt, slow));
}

TEST(Estimate, LongContextAndMoreRowsCostMore) {
  const Released released;
  const Rates rates{.read = 100e9, .matrix = 10e12};
  EXPECT_LT(released.Seconds({.context = 1024}, rates),
            released.Seconds({.context = 262144}, rates));
  const PassShape four{.rows = 4, .sequences = 4, .context = 1024, .logit_rows = 4};
  const double ratio = released.Seconds(four, rates) / released.Seconds({.context = 1024}, rates);
  EXPECT_GT(ratio, 1.1);
  EXPECT_LT(ratio, 4);
}

TEST(Measure, GivesEveryRate) {
  const Rates rates = MeasureCpu({.threads = 2, .cols = 192, .bytes = 8 << 20}).value();
  EXPECT_GT(rates.read, 1e8);
  EXPECT_GT(rates.copy, 1e8);
  EXPECT_GT(rates.matrix, 1e8);
  EXPECT_LT(rates.dispatch, 0.1);
}

}  // namespace
}  // namespace kv8
