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

void Put(float label, DataBatch* batch) {
  batch->resize(1);
  batch->front().type = kFloat;
  batch->front().Reshape({1});
  *batch->front().data<float>() = label;
}

float TakeLabel(Prefetcher* prefetcher) {
  const float label = *prefetcher->Front().at(0).data<float>();
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
    Prefetcher prefetcher(depth, [&](DataBatch* batch) { Put(next++, batch); });
    for (int i = 0; i < 200; ++i) ASSERT_EQ(TakeLabel(&prefetcher), i);
  }
}

TEST(PrefetcherTest, ReadsAheadAsFarAsItsDepth) {
  std::atomic<int> filled{0};
  Prefetcher prefetcher(3, [&](DataBatch* batch) { Put(0.f + filled++, batch); });
  EXPECT_TRUE(Eventually([&] { return filled == 3; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(filled, 3);
  // The batch in use is not refilled.
  EXPECT_EQ(*prefetcher.Front().at(0).data<float>(), 0);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(filled, 3);
  prefetcher.Pop();
  EXPECT_TRUE(Eventually([&] { return filled == 4; }));
}

TEST(PrefetcherTest, ExceptionComesAfterTheBatchesBeforeIt) {
  int next = 0;
  Prefetcher prefetcher(4, [&](DataBatch* batch) {
    CAFFE_CHECK(next < 2, "record ", next, " is bad");
    Put(0.f + next++, batch);
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
    Prefetcher unused(2, [](DataBatch* batch) { Put(0, batch); });
  }
  {
    std::atomic<bool> filling{false};
    Prefetcher slow(2, [&](DataBatch*) {
      filling = true;
      std::this_thread::sleep_for(20ms);
    });
    EXPECT_TRUE(Eventually([&] { return filling.load(); }));
  }
  {
    Prefetcher failing(2, [](DataBatch*) { CAFFE_THROW("unseen"); });
  }
}

TEST(PrefetcherTest, AForkedChildHasNone) {
  auto prefetcher = std::make_unique<Prefetcher>(2, [](DataBatch* batch) { Put(1, batch); });
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
  EXPECT_THROW(Prefetcher(0, [](DataBatch*) {}), Error);
}

}  // namespace
}  // namespace caffe
