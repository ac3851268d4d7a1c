#pragma once

#include <string>
#include <vector>

namespace caffe {

class Net;

// A line for each layer of the net that selects experts (UsageReport), about the forward passes
// since the last call:
//   "    Train expert usage of moe: entropy 0.97, min 0.12, max 0.41 (even use: 1, 0.25, 0.25)"
// The entropy is that of the shares of the experts in all selections, divided by that of even use.
std::vector<std::string> TakeExpertUsage(const Net& net, const std::string& kind);

}  // namespace caffe
