#include "caffe/core/process_mark.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include "caffe/core/error.hpp"
#include "support/in_child.hpp"

namespace caffe {
namespace {

int ThreadsOfARegion(int wanted) {
  int threads = 0;
#pragma omp parallel num_threads(wanted) reduction(+ : threads)
  threads += 1;
  return threads;
}

TEST(ProcessMarkTest, IsInheritedByEveryChild) {
  const ProcessMark mark;
  EXPECT_FALSE(mark.inherited());
  EXPECT_NO_THROW(mark.Check("cuda:7"));
  EXPECT_EQ(InChild([&] {
              const ProcessMark own;
              if (own.inherited() || !mark.inherited()) return 1;
              return InChild([&] { return own.inherited() && mark.inherited() ? 3 : 1; });
            }),
            3);
  EXPECT_FALSE(mark.inherited());
}

TEST(ProcessMarkTest, AnErrorNamesTheDevice) {
  const ProcessMark mark;
  EXPECT_EQ(InChild([&] {
              try {
                mark.Check("cuda:7");
              } catch (const Error& error) {
                const std::string text = error.what();
                return text.starts_with("cuda:7 was opened before this process was forked") ? 3 : 2;
              }
              return 1;
            }),
            3);
}

TEST(ProcessMarkTest, ParallelRegionsRunInAChild) {
  ASSERT_EQ(ThreadsOfARegion(3), 3);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(InChild([] { return ThreadsOfARegion(3); }), 3);
    EXPECT_EQ(ThreadsOfARegion(3), 3);
  }
}

}  // namespace
}  // namespace caffe
