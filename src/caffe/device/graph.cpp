#include "caffe/device/graph.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/work_order.hpp"

namespace caffe {
namespace {

thread_local Capture* current = nullptr;

}  // namespace

GraphMode GraphModeOfEnvironment() {
  const char* value = std::getenv("CAFFE_GRAPHS");
  const std::string_view mode = value ? value : "";
  if (mode == "off") return GraphMode::kOff;
  return mode == "branches" ? GraphMode::kBranches : GraphMode::kLinear;
}

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

Capture::Capture(Device* device, GraphMode mode) : device_(device) {
  CAFFE_CHECK(device->can_capture(), device->info().id, ": this device cannot record work");
  CAFFE_CHECK(!current, device->info().id, ": this thread records work already");
  Stream* const stream = device->BeginCapture();
  scope_ = std::make_unique<StreamScope>(device, stream);
  if (mode == GraphMode::kBranches) order_ = std::make_unique<WorkOrder>();
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

bool Capture::has_branches() const { return order_ && order_->longest_chain() < order_->pieces(); }

std::unique_ptr<Graph> Capture::End() {
  Stop();
  std::unique_ptr<Graph> graph = device_->EndCapture();
  graph->device_ = device_;
  graph->used_ = std::move(used_);
  graph->allocations_ = std::move(allocations_);
  if (order_) {
    log::Debug(Concat(device_->info().id, ": a graph of ", order_->pieces(),
                      " pieces of work, at most ", order_->longest_chain(), " one after another"));
  }
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
  if (!order_) return;
  std::vector<MemoryUse> uses;
  for (const DevicePtr& pointer : pointers) {
    if (pointer) uses.push_back(UseOf(pointer));
  }
  if (!device_->DoOrderAfter(order_->Add(uses))) order_.reset();
}

// Several notes may hold the pointer: those of an array and of its part.
MemoryUse Capture::UseOf(const DevicePtr& pointer) const {
  MemoryUse all{pointer.handle, std::numeric_limits<int64_t>::max(), 0, !pointer.read_only};
  const auto holds = [&](const MemoryUse& one) {
    return one.buffer == pointer.handle && one.begin <= pointer.offset && pointer.offset < one.end;
  };
  for (const MemoryUse& one : extents_) {
    if (!holds(one)) continue;
    all.begin = std::min(all.begin, one.begin);
    all.end = std::max(all.end, one.end);
  }
  if (all.end == 0) {
    all.begin = 0;
    all.end = std::numeric_limits<int64_t>::max();
    return all;
  }
  for (const MemoryUse& one : extents_) {
    if (!holds(one) || one.begin != all.begin || one.end != all.end) continue;
    all.pitch = one.pitch;
    all.first = one.first;
    all.last = one.last;
    if (one.pitch == 0) break;  // all bytes of the rows are used
  }
  return all;
}

void Capture::NoteColumns(const Device* device, DevicePtr pointer, int64_t bytes, int64_t pitch,
                          int64_t first, int64_t last) {
  if (!device->tracks_use() || bytes == 0) return;
  Capture* const capture = Of(device);
  if (!capture || !capture->order_) return;
  capture->extents_.push_back(
      {pointer.handle, pointer.offset, pointer.offset + bytes, false, pitch, first, last});
}

}  // namespace caffe
