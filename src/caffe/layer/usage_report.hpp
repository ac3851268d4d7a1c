#pragma once

#include <string>
#include <vector>

namespace caffe {

// The share of items that selected each of several experts, averaged over forward passes.
struct ExpertUsage {
  std::string layer;
  std::vector<double> shares;
};

// A layer that selects some of several experts for each item, or contains such layers.
class UsageReport {
 public:
  virtual ~UsageReport() = default;
  // The usage since the last call, of each layer that had a forward pass. Waits for the device.
  virtual std::vector<ExpertUsage> TakeUsage() = 0;
};

}  // namespace caffe
