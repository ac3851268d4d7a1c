#include "caffe/device/opencl/opencl_graph.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "caffe/device/opencl/opencl_device.hpp"

namespace caffe {

QueuePlan::QueuePlan(const std::vector<opencl::Command>& commands, int most_queues) {
  std::vector<std::vector<bool>> before;  // of each command: all that have run when it begins
  // The last command of queue `b` for which queue `a` has waited.
  std::vector<std::vector<int>> waited(most_queues, std::vector<int>(most_queues, -1));
  for (int i = 0; i < static_cast<int>(commands.size()); ++i) {
    const std::vector<int>& after = commands[i].after;
    std::vector<bool> ran(i);
    for (const int one : after) {
      ran[one] = true;
      for (int j = 0; j < one; ++j) ran[j] = ran[j] || before[one][j];
    }
    // The queue whose last command is the latest one that has run; otherwise a new queue, or the
    // one that was not used for longest.
    int queue = -1;
    for (int q = 0; q < static_cast<int>(tails_.size()); ++q) {
      if (ran[tails_[q]] && (queue < 0 || tails_[q] > tails_[queue])) queue = q;
    }
    if (queue < 0 && static_cast<int>(tails_.size()) < most_queues) {
      queue = static_cast<int>(tails_.size());
      tails_.push_back(-1);
    } else if (queue < 0) {
      queue = static_cast<int>(std::min_element(tails_.begin(), tails_.end()) - tails_.begin());
    }
    Place place{queue};
    for (auto one = after.rbegin(); one != after.rend(); ++one) {
      const int other = places_[*one].queue;
      if (other == queue || waited[queue][other] >= *one) continue;
      waited[queue][other] = *one;
      place.waits.push_back(*one);
      places_[*one].signals = true;
    }
    if (tails_[queue] >= 0) {
      // The commands before it on the queue have run, too.
      ran[tails_[queue]] = true;
      for (int j = 0; j < tails_[queue]; ++j) ran[j] = ran[j] || before[tails_[queue]][j];
    }
    tails_[queue] = i;
    places_.push_back(std::move(place));
    before.push_back(std::move(ran));
  }
  for (size_t q = 1; q < tails_.size(); ++q) places_[tails_[q]].signals = true;
}

OpenClGraph::OpenClGraph(OpenClDevice* device, std::vector<opencl::Command> commands)
    : device_(device), commands_(std::move(commands)), plan_(commands_, kMostQueues) {
  const opencl::CommandBufferFunctions* const functions = device->command_buffers();
  if (functions && plan_.tails().size() == 1) {
    buffer_ = std::make_unique<opencl::CommandBuffer>(*functions, device->queue(), commands_,
                                                      device->where());
  }
}

void OpenClGraph::DoLaunch() {
  const std::lock_guard lock(device_->record_mutex());
  const cl_command_queue queue = device_->queue();
  if (buffer_) return buffer_->Enqueue(queue);
  if (plan_.tails().size() > 1) return LaunchBranches();
  for (const opencl::Command& one : commands_) {
    opencl::Enqueue(one.work, queue, {}, nullptr, one.where);
  }
}

void OpenClGraph::LaunchBranches() {
  const size_t queues = plan_.tails().size();
  std::vector<cl_command_queue> queue{device_->queue()};
  for (size_t q = 1; q < queues; ++q) queue.push_back(device_->BranchQueue(q - 1));
  const auto flush = [&](size_t q) {
    opencl::Check(clFlush(queue[q]), "clFlush", device_->where());
  };
  std::vector<opencl::Handle<cl_event>> events(commands_.size());
  cl_event event = nullptr;
  opencl::Check(clEnqueueMarkerWithWaitList(queue[0], 0, nullptr, &event),
                "clEnqueueMarkerWithWaitList", device_->where());
  const opencl::Handle<cl_event> begin(event);
  flush(0);
  std::vector<bool> begun(queues);
  begun[0] = true;
  std::vector<cl_event> after;
  for (size_t i = 0; i < commands_.size(); ++i) {
    const QueuePlan::Place& place = plan_.places()[i];
    after.clear();
    if (!begun[place.queue]) after.push_back(begin.get());
    begun[place.queue] = true;
    for (const int one : place.waits) after.push_back(events[one].get());
    event = nullptr;
    opencl::Enqueue(commands_[i].work, queue[place.queue], after, place.signals ? &event : nullptr,
                    commands_[i].where);
    if (!place.signals) continue;
    events[i].reset(event);
    // Without this flush, the queue that waits might wait for ever.
    flush(place.queue);
  }
  after.clear();
  for (size_t q = 1; q < queues; ++q) after.push_back(events[plan_.tails()[q]].get());
  opencl::Check(clEnqueueBarrierWithWaitList(queue[0], static_cast<cl_uint>(after.size()),
                                             after.data(), nullptr),
                "clEnqueueBarrierWithWaitList", device_->where());
}

}  // namespace caffe
