#include "caffe/core/progress_bar.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace caffe {
namespace {

TEST(ProgressBarTest, Line) {
  ProgressBar bar(nullptr, 100, 1100, 64);
  EXPECT_EQ("[=>                  ]   9%  100/1100", bar.Line(100, 1, ""));
  EXPECT_EQ("[=====>              ]  27%  300/1100  20.0 it/s  1280 img/s  ETA 0:00:40",
            bar.Line(300, 10, ""));
  EXPECT_EQ("[====================] 100%  1100/1100  testing 3/9",
            bar.Line(1100, 10, "testing 3/9"));
  const ProgressBar unknown(nullptr, 0, 0, 0);
  EXPECT_EQ("comparing layers 7", unknown.Line(7, 1, "comparing layers 7"));
}

TEST(ProgressBarTest, WhatIsDoneIsPrintable) {
  std::ostringstream out;
  {
    ProgressBar bar(&out, 0, 0, 0);
    bar.Show(1, "layer \x1b]0;title\x07");
  }
  EXPECT_EQ("layer \\x1b]0;title\\x07\033[K\r\033[K", out.str());
}

}  // namespace
}  // namespace caffe
