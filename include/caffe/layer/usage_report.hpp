#pragma once

#include <vector>

namespace caffe {

// A layer that selects some of several experts for each item.
class UsageReport {
 public:
  virtual ~UsageReport() = default;
  // The share of items that selected each expert, averaged over the forward passes since the last
  // call; empty if there was none. Waits for the device.
  virtual std::vector<double> TakeUsage() = 0;
};

}  // namespace caffe
