#pragma once

#include <memory>
#include <vector>

#include "caffe/device/graph.hpp"
#include "caffe/device/opencl/opencl_command_buffer.hpp"
#include "caffe/device/opencl/opencl_record.hpp"

namespace caffe {

class OpenClDevice;

// On which of several in-order queues each command of a record runs. A command that follows another
// one is on its queue if it can be; commands of different queues are ordered by events.
class QueuePlan {
 public:
  struct Place {
    int queue = 0;
    std::vector<int> waits = {};  // commands on other queues
    bool signals = false;         // another queue waits for it
  };
  QueuePlan(const std::vector<opencl::Command>& commands, int most_queues);
  const std::vector<Place>& places() const { return places_; }
  // The last command of each queue; all of them signal, but that of queue 0.
  const std::vector<int>& tails() const { return tails_; }

 private:
  std::vector<Place> places_;
  std::vector<int> tails_;
};

// Recorded commands. If each follows the one before, they are one command buffer of the driver if
// it has these, otherwise they are enqueued one by one. Branches are enqueued on several queues.
class OpenClGraph final : public Graph {
 public:
  OpenClGraph(OpenClDevice* device, std::vector<opencl::Command> commands);

  static constexpr int kMostQueues = 8;

 protected:
  void DoLaunch() override;

 private:
  void LaunchBranches();

  OpenClDevice* const device_;
  const std::vector<opencl::Command> commands_;
  const QueuePlan plan_;
  std::unique_ptr<opencl::CommandBuffer> buffer_;
};

}  // namespace caffe
