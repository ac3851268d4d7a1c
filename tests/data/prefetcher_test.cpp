#include "caffe/data/prefetcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "caffe/core/error.hpp"
#include "support/in_child.hpp"

namespace caffe {
namespace {

using namespace std::chrono_literals;

float TakeLabel(Prefetcher* prefetcher) {
  const float label = prefetcher->Front().labels.at(0);
  prefetcher->Pop();
  return label;
}

// Waits for what another thread will make true.
template <class Condition> bool Eventually(const Condition& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

TEST(PrefetcherTest, BatchesComeInOrder) {
  for (int depth : {1, 2, 5}) {
    float next = 0;
    Prefetcher prefetcher(depth, [&](Prefetcher::Batch* batch) { batch->labels = {next++}; });
    for (int i = 0; i < 200; ++i) ASSERT_EQ(TakeLabel(&prefetcher), i);
  }
}

TEST(PrefetcherTest, ReadsAheadAsFarAsItsDepth) {
  std::atomic<int> filled{0};
  Prefetcher prefetcher(3, [&](Prefetcher::Batch* batch) { batch->labels = {0.f + filled++}; });
  EXPECT_TRUE(Eventually([&] { return filled == 3; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(filled, 3);
  // The batch in use is not refilled.
  EXPECT_EQ(prefetcher.Front().labels[0], 0);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(filled, 3);
  prefetcher.Pop();
  EXPECT_TRUE(Eventually([&] { return filled == 4; }));
}

TEST(PrefetcherTest, ExceptionComesAfterTheBatchesBeforeIt) {
  int next = 0;
  Prefetcher prefetcher(4, [&](Prefetcher::Batch* batch) {
    CAFFE_CHECK(next < 2, "record ", next, " is bad");
    batch->labels = {0.f + next++};
  });
  EXPECT_EQ(TakeLabel(&prefetcher), 0);
  EXPECT_EQ(TakeLabel(&prefetcher), 1);
  for (int again = 0; again < 2; ++again) {
    try {
      prefetcher.Front();
      FAIL() << "no exception";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "record 2 is bad");
    }
  }
}

TEST(PrefetcherTest, EndsWhateverTheThreadDoes) {
  for (int i = 0; i < 50; ++i) {
    Prefetcher unused(2, [](Prefetcher::Batch* batch) { batch->data.resize(1); });
  }
  {
    std::atomic<bool> filling{false};
    Prefetcher slow(2, [&](Prefetcher::Batch*) {
      filling = true;
      std::this_thread::sleep_for(20ms);
    });
    EXPECT_TRUE(Eventually([&] { return filling.load(); }));
  }
  {
    Prefetcher failing(2, [](Prefetcher::Batch*) { CAFFE_THROW("unseen"); });
  }
}

TEST(PrefetcherTest, AForkedChildHasNone) {
  auto prefetcher =
      std::make_unique<Prefetcher>(2, [](Prefetcher::Batch* batch) { batch->labels = {1}; });
  EXPECT_EQ(TakeLabel(prefetcher.get()), 1);
  std::this_thread::sleep_for(20ms);  // until the thread waits
  EXPECT_EQ(InChild([&] {
              try {
                for (int i = 0; i < 4; ++i) TakeLabel(prefetcher.get());
              } catch (const Error&) {
                prefetcher.reset();
                return 3;
              }
              return 1;
            }),
            3);
  EXPECT_EQ(TakeLabel(prefetcher.get()), 1);
}

TEST(PrefetcherTest, DepthMustBePositive) {
  EXPECT_THROW(Prefetcher(0, [](Prefetcher::Batch*) {}), Error);
}

}  // namespace
}  // namespace caffe
