#include "caffe/device/graph.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"

namespace caffe {
namespace {

thread_local Capture* current = nullptr;

}  // namespace

bool Graph::valid() {
  const uint64_t frees = device_->frees();
  if (valid_ && frees != frees_) {
    valid_ = device_->Allocations(used_) == allocations_;
    frees_ = frees;
  }
  return valid_;
}

void Graph::Launch() {
  CAFFE_CHECK(valid(), device_->info().id, ": a recorded graph uses a buffer that was freed");
  device_->NoteUse(std::span<const DevicePtr>(used_));
  DoLaunch();
  device_->CountLaunch();
  device_->CountGraphLaunch();
}

Capture::Capture(Device* device) : device_(device) {
  CAFFE_CHECK(device->can_capture(), device->info().id, ": this device cannot record work");
  CAFFE_CHECK(!current, device->info().id, ": this thread records work already");
  Stream* const stream = device->BeginCapture();
  scope_ = std::make_unique<StreamScope>(device, stream);
  current = this;
}

Capture::~Capture() {
  if (ended_) return;
  Stop();
  device_->AbandonCapture();
}

void Capture::Stop() noexcept {
  current = nullptr;
  scope_.reset();
  ended_ = true;
}

std::unique_ptr<Graph> Capture::End() {
  Stop();
  std::unique_ptr<Graph> graph = device_->EndCapture();
  graph->device_ = device_;
  graph->used_ = std::move(used_);
  graph->allocations_ = std::move(allocations_);
  return graph;
}

Capture* Capture::Of(const Device* device) {
  return current && current->device_ == device ? current : nullptr;
}

bool Capture::Recording(const Device* device) { return device->tracks_use() && Of(device); }

bool Capture::Keep(Device* device, const std::function<void()>& call) {
  return device->DoKeep(call);
}

void Capture::NoteUse(std::span<const DevicePtr> pointers) {
  for (const DevicePtr& pointer : pointers) {
    if (!pointer) continue;
    const auto found = std::find_if(used_.begin(), used_.end(), [&](const DevicePtr& used) {
      return used.handle == pointer.handle;
    });
    if (found == used_.end()) {
      used_.push_back(pointer);
      allocations_.push_back(device_->Allocations({&pointer, 1})[0]);
    } else if (!pointer.read_only) {
      found->read_only = false;
    }
  }
}

}  // namespace caffe
