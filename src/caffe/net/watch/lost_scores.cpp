#include "caffe/net/lost_scores.hpp"

#include "caffe/core/error.hpp"
#include "caffe/layer/score_report.hpp"
#include "caffe/net/net.hpp"

namespace caffe {

std::string TakeLostScores(const Net& net) {
  std::string warning;
  for (const auto& layer : net.layers()) {
    auto* const report = dynamic_cast<ScoreReport*>(layer.get());
    if (!report || !report->TakeLostScores() || !warning.empty()) continue;
    warning =
        Concat(layer->name(), " (", layer->type(), "): there are scores that are not finite. ",
               "An item whose label has the score NaN counts as a miss. Training has ",
               "diverged, or weights or data are not finite; CAFFE_DEBUG=nan ends with an ",
               "error that names the first such layer and blob");
  }
  return warning;
}

}  // namespace caffe
