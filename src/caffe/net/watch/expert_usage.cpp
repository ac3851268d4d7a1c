#include "caffe/net/expert_usage.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/layer/usage_report.hpp"
#include "caffe/net/net.hpp"

namespace caffe {
namespace {

double RelativeEntropy(const std::vector<double>& shares, double sum) {
  if (shares.size() < 2) return 1;
  double entropy = 0;
  for (const double share : shares) {
    if (share > 0) entropy -= share / sum * std::log(share / sum);
  }
  return entropy / std::log(static_cast<double>(shares.size()));
}

}  // namespace

std::vector<std::string> TakeExpertUsage(const Net& net, const std::string& kind) {
  std::vector<std::string> lines;
  for (const auto& layer : net.layers()) {
    auto* const report = dynamic_cast<UsageReport*>(layer.get());
    if (!report) continue;
    for (const ExpertUsage& usage : report->TakeUsage()) {
      const std::vector<double>& shares = usage.shares;
      double sum = 0;
      for (const double share : shares) sum += share;
      const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
      const auto even = static_cast<float>(sum / static_cast<double>(shares.size()));
      lines.push_back(Concat("    ", kind, " expert usage of ", usage.layer, ": entropy ",
                             static_cast<float>(RelativeEntropy(shares, sum)), ", min ",
                             static_cast<float>(*least), ", max ", static_cast<float>(*most),
                             " (even use: 1, ", even, ", ", even, ")"));
    }
  }
  return lines;
}

}  // namespace caffe
