#pragma once

namespace caffe {

// The smallest and largest value of a blob while it was observed.
struct ObservedRange {
  double low, high;
};

}  // namespace caffe
