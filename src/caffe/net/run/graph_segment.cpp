#include "graph_segment.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {

std::vector<StepRange> ReplayableRanges(const std::vector<bool>& replayable) {
  std::vector<StepRange> ranges;
  for (size_t begin = 0; begin < replayable.size();) {
    size_t end = begin;
    while (end < replayable.size() && replayable[end]) ++end;
    if (end >= begin + 2) ranges.push_back({begin, end});
    begin = std::max(end, begin + 1);
  }
  return ranges;
}

void GraphEpoch::Begin() {
  now_.clear();
  complete_ = true;
}

void GraphEpoch::Add(DevicePtr pointer) {
  if (!pointer) complete_ = false;
  now_.push_back(reinterpret_cast<uintptr_t>(pointer.handle));
  now_.push_back(static_cast<uint64_t>(pointer.offset));
}

int GraphEpoch::End() {
  same_ = complete_ && now_ == before_ ? same_ + 1 : 0;
  std::swap(now_, before_);
  if (!complete_) before_.clear();
  return same_;
}

GraphSegment::GraphSegment(StepRange steps, BlobVec inputs, BlobVec targets)
    : steps_(steps), inputs_(std::move(inputs)), targets_(std::move(targets)) {}

void GraphSegment::Run(Device* device, const std::function<void(GraphEpoch*)>& add,
                       const std::function<BlobVec()>& own, const std::function<void()>& run,
                       const std::function<void()>& note) {
  if (refused_) return run();
  // Uploads what the host wrote, and computes what was not stored.
  for (const BlobBase* input : inputs_) input->device_data();
  epoch_.Begin();
  for (const BlobVec* arrays : {&inputs_, &targets_}) {
    for (const BlobBase* array : *arrays) {
      const SyncedMemory& memory = *array->data_memory();
      epoch_.Add(reinterpret_cast<uintptr_t>(&memory));
      epoch_.Add(memory.buffer() ? memory.buffer()->pointer() + memory.offset() : DevicePtr());
      if (array->type().is_quantized()) {
        epoch_.Add(static_cast<uint64_t>(array->range().zero));
      }
    }
  }
  add(&epoch_);
  const int same = epoch_.End();
  if (same == 0 || (graph_ && !graph_->valid())) graph_.reset();
  if (graph_) {
    graph_->Launch();
    for (SyncedMemory* memory : written_) memory->MarkDeviceWritten();
    note();
  } else if (runs_ < 2 || same == 0 || !Record(device, own, run)) {
    run();
    ++runs_;
  }
}

// Returns false if the steps could not be recorded. Then nothing of them has run.
bool GraphSegment::Record(Device* device, const std::function<BlobVec()>& own,
                          const std::function<void()>& run) {
  std::vector<SyncedMemory*> memories;
  BlobVec arrays = own();
  arrays.insert(arrays.end(), targets_.begin(), targets_.end());
  for (const BlobBase* array : arrays) memories.push_back(array->data_memory().get());
  std::sort(memories.begin(), memories.end());
  memories.erase(std::unique(memories.begin(), memories.end()), memories.end());
  std::vector<uint64_t> versions;
  for (const SyncedMemory* memory : memories) versions.push_back(memory->version());
  try {
    graph_ = RecordChoice(
        device, [&](Capture*) { run(); }, [] {});
    graph_->Launch();
  } catch (const std::exception& error) {
    graph_.reset();
    refused_ = true;
    log::Debug(Concat("steps ", steps_.begin, " to ", steps_.end - 1,
                      " are not replayed as a graph: ", error.what()));
    return false;
  }
  written_.clear();
  for (size_t i = 0; i < memories.size(); ++i) {
    if (memories[i]->version() != versions[i]) written_.push_back(memories[i]);
  }
  return true;
}

}  // namespace caffe
