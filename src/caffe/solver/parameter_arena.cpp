#include "caffe/solver/parameter_arena.hpp"

#include <cstring>
#include <map>
#include <tuple>

namespace caffe {
namespace {

// In elements: every blob begins at a multiple of 256 bytes, as its own memory would.
constexpr int64_t kAlignment = 64;

}  // namespace

ParameterArena::ParameterArena(const LearnableParameters& parameters, Device* device)
    : device_(device), places_(parameters.blobs.size()) {
  const int size = static_cast<int>(parameters.blobs.size());
  // Runs in the order in which backward reaches the first of them.
  using Key = std::tuple<DataType, float, float>;
  std::vector<std::pair<Key, std::vector<int>>> runs;
  for (int i = size - 1; i >= 0; --i) {
    const BlobBase& blob = *parameters.blobs[i];
    CAFFE_CHECK(blob.type() == kFloat || blob.type() == kDouble, "parameter ", blob.name(),
                " holds ", blob.type().name(), "; only float and double can be trained");
    const Key key{blob.type(), parameters.lr_mult[i], parameters.decay_mult[i]};
    auto run = runs.begin();
    while (run != runs.end() && run->first != key) ++run;
    if (run == runs.end()) run = runs.insert(run, {key, {}});
    run->second.push_back(i);
  }
  for (const auto& [key, members] : runs) {
    const DataType type = std::get<0>(key);
    int part = 0;
    while (part < static_cast<int>(parts_.size()) && parts_[part].type != type) ++part;
    if (part == static_cast<int>(parts_.size())) parts_.push_back({type, 0, nullptr, nullptr, {}});
    Part& target = parts_[part];
    const int64_t begin = target.count;
    for (int i : members) {
      places_[i] = {part, target.count};
      const int64_t count = parameters.blobs[i]->count();
      target.count += (count + kAlignment - 1) / kAlignment * kAlignment;
    }
    target.runs.push_back({begin, target.count - begin, std::get<1>(key), std::get<2>(key)});
  }
  for (int part = 0; part < static_cast<int>(parts_.size()); ++part) {
    parts_[part].data = MakeState(part, "parameters");
    parts_[part].diff = MakeState(part, "gradients of parameters");
  }
  for (int i = 0; i < size; ++i) {
    BlobBase* blob = parameters.blobs[i];
    const Part& part = parts_[places_[i].part];
    const int64_t offset = places_[i].begin * static_cast<int64_t>(blob->type().bytes());
    const auto old_memory = blob->data_memory();
    const int64_t old_offset = blob->data_offset();
    std::memcpy(static_cast<char*>(part.data->mutable_host_data()) + offset, blob->host_data(),
                blob->bytes());
    if (blob->has_diff()) {
      std::memcpy(static_cast<char*>(part.diff->mutable_host_data()) + offset, blob->host_diff(),
                  blob->bytes());
    }
    blob->SetDataMemory(part.data, offset);
    blob->SetDiffMemory(part.diff, offset);
    for (const auto& other : parameters.all) {
      if (other.get() != blob && other->data_memory() == old_memory &&
          other->data_offset() == old_offset) {
        other->ShareData(*blob);
        other->ShareDiff(*blob);
      }
    }
  }
}

std::shared_ptr<SyncedMemory> ParameterArena::MakeState(int part,
                                                        const std::string& purpose) const {
  const Part& model = parts_[part];
  return std::make_shared<SyncedMemory>(model.count * static_cast<int64_t>(model.type.bytes()),
                                        device_, purpose);
}

void ParameterArena::ClearDiffs() {
  for (const Part& part : parts_) {
    Device* device = part.diff->device();
    device->Fill(part.diff->mutable_device_data(), 0, part.diff->bytes());
  }
}

}  // namespace caffe
