#pragma once

#include <memory>
#include <vector>

#include "caffe/device/graph.hpp"

namespace caffe {

// The same work recorded once or twice: in the order of the record, and, if that differs, with
// branches that can run at the same time. Branches save time where kernels are too small to fill
// the device, and cost time where a kernel waits for another branch. So both graphs take turns in
// the first launches, which are timed on the device; the faster one stays.
class GraphChoice {
 public:
  // `branches` may be null.
  GraphChoice(Device* device, std::unique_ptr<Graph> linear, std::unique_ptr<Graph> branches);

  bool valid();
  // One launch. The host waits once, for a launch that was made before, when it compares the times.
  void Launch();
  // Null until the first launch after all timed ones; the graph that stays.
  const Graph* chosen() const { return graphs_.size() == 1 ? graphs_[0].get() : nullptr; }

  // Timed launches of each graph.
  static constexpr int kTrials = 5;

 private:
  struct Trial {
    std::unique_ptr<Event> begin, end;
  };
  void Choose();

  Device* device_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // the one in order comes first
  std::vector<Trial> trials_;                   // of the graphs in turn
};

// Records what `run` enqueues. It is called again if the graph has branches: `again` undoes before
// what the first call has changed on the host. Throws what they throw.
std::unique_ptr<GraphChoice> RecordChoice(Device* device, const std::function<void(Capture*)>& run,
                                          const std::function<void()>& again);

}  // namespace caffe
