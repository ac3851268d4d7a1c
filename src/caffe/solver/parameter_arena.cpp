#include "caffe/solver/parameter_arena.hpp"

#include <algorithm>

#include "../../../kernels/dialect/training.h"
#include "caffe/device/graph.hpp"

namespace caffe {
namespace {

static_assert(ParameterArena::kBlock == PARAMETER_BLOCK);

// The blocks of the blob's memories, which may be larger than its shape needs.
int64_t Blocks(const BlobBase& blob) {
  const int64_t bytes = std::max(blob.data_memory()->bytes(), blob.diff_memory()->bytes());
  const int64_t block = ParameterArena::kBlock * static_cast<int64_t>(blob.type().bytes());
  return (bytes + block - 1) / block;
}

}  // namespace

ArenaArray::ArenaArray(Of of, int64_t bytes, std::string purpose)
    : of_(of), bytes_(bytes), purpose_(std::move(purpose)) {}

SyncedMemory& ArenaArray::MemoryOf(const Slice& slice) const {
  return of_ == Of::kData ? *slice.blob->data_memory() : *slice.blob->diff_memory();
}

void ArenaArray::Gather() {
  Device* const device = slices_.front().blob->device();
  std::shared_ptr<DeviceBuffer> buffer = buffer_.lock();
  if (!buffer || buffer->device() != device) {
    buffer = std::make_shared<DeviceBuffer>(device, bytes_, purpose_);
    device->Fill(buffer->pointer(), 0, bytes_);
    buffer_ = buffer;
  }
  for (size_t i = 0; i < slices_.size(); ++i) {
    SyncedMemory& memory = MemoryOf(slices_[i]);
    if (memory.buffer() == buffer && memory.offset() == slices_[i].offset) continue;
    const int64_t end = i + 1 < slices_.size() ? slices_[i + 1].offset : bytes_;
    CAFFE_CHECK(slices_[i].offset + memory.bytes() <= end, "parameter ", slices_[i].blob->name(),
                " was reshaped to ", slices_[i].blob->shape_string(),
                " and is larger than it was when the solver was made; make another solver");
    memory.MoveInto(buffer, slices_[i].offset);
  }
}

DevicePtr ArenaArray::Read() {
  Gather();
  for (const Slice& slice : slices_) MemoryOf(slice).device_data();
  return Whole();
}

DevicePtr ArenaArray::ReadAndWrite() {
  Gather();
  for (const Slice& slice : slices_) MemoryOf(slice).mutable_device_data();
  return Whole();
}

DevicePtr ArenaArray::ReadAndWrite(int64_t begin, int64_t end) {
  Gather();
  for (const Slice& slice : slices_) {
    if (slice.offset >= begin && slice.offset < end) MemoryOf(slice).mutable_device_data();
  }
  const std::shared_ptr<DeviceBuffer> buffer = buffer_.lock();
  Capture::NoteExtent(buffer->device(), buffer->pointer() + begin, end - begin);
  return buffer->pointer() + begin;
}

// Not only its first slice is used through this pointer.
DevicePtr ArenaArray::Whole() const {
  const std::shared_ptr<DeviceBuffer> buffer = buffer_.lock();
  Capture::NoteExtent(buffer->device(), buffer->pointer(), bytes_);
  return buffer->pointer();
}

void ArenaArray::Clear() {
  Gather();
  const std::shared_ptr<DeviceBuffer> buffer = buffer_.lock();
  buffer->device()->Fill(buffer->pointer(), 0, bytes_);
  for (const Slice& slice : slices_) MemoryOf(slice).MarkDeviceWritten();
}

ParameterArena::ParameterArena(const LearnableParameters& parameters, Device* device) {
  struct Layout {
    DataType type;
    std::vector<int> members;
    std::vector<int64_t> offsets;  // in blocks
    std::vector<float> multipliers;
  };
  std::vector<Layout> layouts;
  for (int i = static_cast<int>(parameters.blobs.size()) - 1; i >= 0; --i) {
    const BlobBase& blob = *parameters.blobs[i];
    CAFFE_CHECK(blob.type() == kFloat || blob.type() == kDouble, "parameter ", blob.name(),
                " holds ", blob.type().name(), "; only float and double can be trained");
    auto layout = layouts.begin();
    while (layout != layouts.end() && layout->type != blob.type()) ++layout;
    if (layout == layouts.end()) layout = layouts.insert(layout, {blob.type(), {}, {}, {}});
    layout->members.push_back(i);
    layout->offsets.push_back(static_cast<int64_t>(layout->multipliers.size()) / 2);
    for (int64_t block = Blocks(blob); block > 0; --block) {
      layout->multipliers.push_back(parameters.lr_mult[i]);
      layout->multipliers.push_back(parameters.decay_mult[i]);
    }
  }
  for (const Layout& layout : layouts) {
    const int64_t blocks = static_cast<int64_t>(layout.multipliers.size()) / 2;
    const int64_t block_bytes = kBlock * static_cast<int64_t>(layout.type.bytes());
    const int64_t bytes = blocks * block_bytes;
    Part part{layout.type,
              blocks * kBlock,
              ArenaArray(ArenaArray::Of::kData, bytes, "parameters"),
              ArenaArray(ArenaArray::Of::kDiffs, bytes, "gradients of parameters"),
              std::make_shared<Blob<float>>(device, Shape{blocks, 2}),
              layout.members,
              {}};
    part.multipliers->set_name("multipliers of parameters");
    std::copy(layout.multipliers.begin(), layout.multipliers.end(),
              part.multipliers->mutable_cpu_data());
    for (size_t m = 0; m < layout.members.size(); ++m) {
      part.offsets.push_back(layout.offsets[m] * block_bytes);
      part.data.Add(parameters.blobs[layout.members[m]], part.offsets[m]);
      part.diff.Add(parameters.blobs[layout.members[m]], part.offsets[m]);
    }
    parts_.push_back(std::move(part));
  }
}

std::vector<GradientBucket> ParameterArena::Buckets(int64_t bytes) const {
  std::vector<GradientBucket> buckets;
  for (size_t p = 0; p < parts_.size(); ++p) {
    const Part& part = parts_[p];
    const int64_t all = part.count * static_cast<int64_t>(part.type.bytes());
    GradientBucket bucket{p, 0, 0, {}};
    for (size_t m = 0; m < part.members.size(); ++m) {
      const bool last = m + 1 == part.members.size();
      bucket.members.push_back(part.members[m]);
      bucket.end = last ? all : part.offsets[m + 1];
      if (!last && bucket.end - bucket.begin < bytes) continue;
      buckets.push_back(bucket);
      bucket = {p, bucket.end, 0, {}};
    }
  }
  // The first layer of a bucket is the last one whose gradient is complete.
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const GradientBucket& one, const GradientBucket& two) {
                     return one.members.back() > two.members.back();
                   });
  return buckets;
}

void ParameterArena::ClearDiffs() {
  for (Part& part : parts_) {
    part.data.Gather();
    part.diff.Clear();
  }
}

ArenaArray ParameterArena::ArrayOf(const Part& part,
                                   const std::vector<std::shared_ptr<BlobBase>>& blobs,
                                   const std::string& purpose) const {
  ArenaArray array(ArenaArray::Of::kData, part.count * static_cast<int64_t>(part.type.bytes()),
                   purpose);
  for (size_t m = 0; m < part.members.size(); ++m) {
    array.Add(blobs[part.members[m]].get(), part.offsets[m]);
  }
  return array;
}

void ParameterArena::SetDevice(Device* device) {
  for (Part& part : parts_) part.multipliers->SetDevice(device);
}

}  // namespace caffe
