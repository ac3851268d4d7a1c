#include "caffe/data/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "caffe/core/error.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

TEST(ParallelTest, EveryNumberOnce) {
  for (int threads : {1, 2, 9}) {
    for (int64_t count : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> calls(count);
      RunInParallel(threads, count, [&](int64_t i) { ++calls[i]; });
      for (const auto& call : calls) EXPECT_EQ(call, 1);
    }
  }
}

TEST(ParallelTest, TheFirstErrorComesOut) {
  for (int threads : {1, 2, 9}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      EXPECT_EQ(ErrorOf([&] {
                  RunInParallel(threads, 100,
                                [](int64_t i) { CAFFE_CHECK(i % 10 != 3, "number ", i); });
                }),
                "number 3");
    }
  }
}

}  // namespace
}  // namespace caffe
