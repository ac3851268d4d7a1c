#pragma once

namespace caffe {

// The smallest and the largest number that a blob held while its range was observed.
struct ObservedRange {
  double low, high;
};

}  // namespace caffe
