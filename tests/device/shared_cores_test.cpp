#include "caffe/device/cpu/shared_cores.hpp"

#include <gtest/gtest.h>

namespace caffe {
namespace {

// While the system stops threads often, one thread computes small work. Processor time counts, so
// that a process that slept learns nothing from it.
TEST(SharedCoresTest, OneThreadComputesSmallWorkWhileCoresAreTakenAway) {
  int64_t stops = 1 << 20;
  double seconds = 1e6;
  const auto after = [&](double passed, double rate) {
    seconds += passed;
    stops += static_cast<int64_t>(passed * rate);
    WatchCores(stops, seconds);
    EXPECT_EQ(SerialFactor() > 1, CoresAreShared());
    return CoresAreShared();
  };
  after(1, 0);
  EXPECT_FALSE(after(1, 0));
  EXPECT_FALSE(after(0.01, 1000)) << "too short a look";
  EXPECT_FALSE(after(0.05, 300)) << "quiet machines have a few stops in a row, too";
  EXPECT_TRUE(after(0.05, 1000));
  EXPECT_TRUE(after(0.1, 0)) << "too short a look";
  EXPECT_TRUE(after(0.5, 1000));
  EXPECT_FALSE(after(0.6, 300));
  EXPECT_FALSE(after(1, 0));
}

}  // namespace
}  // namespace caffe
