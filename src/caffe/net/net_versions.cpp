// Earlier versions of blobs that SeparateInPlace gave memory of their own. To the user a blob is one
// variable that layers change in place: where a pass over a part of the net begins or ends, and in
// callbacks, values are copied between the last version, which the user sees, and an earlier one.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "caffe/device/device.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/observer.hpp"

namespace caffe {
namespace {

std::vector<double> Codes(const BlobBase& blob) {
  if (blob.type() == kQuant8) {
    const auto* codes = static_cast<const uint8_t*>(blob.host_data());
    return {codes, codes + blob.count()};
  }
  const auto* codes = static_cast<const uint16_t*>(blob.host_data());
  return {codes, codes + blob.count()};
}

std::vector<double> Numbers(const BlobBase& blob) {
  if (blob.type().is_float()) return blob.DataAsDouble();
  std::vector<double> values = Codes(blob);
  for (double& value : values) value = blob.range().scale * (value - blob.range().zero);
  return values;
}

// Quantizes to the range that the blob has; without one to that of the numbers.
void SetNumbers(BlobBase* blob, const std::vector<double>& values) {
  if (blob->type().is_float()) return blob->SetData(values);
  if (!blob->range().observed) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    blob->set_range(AffineRange(*low, *high, blob->type()));
  }
  const TypeInfo& info = blob->type().info();
  void* const codes = blob->mutable_host_data();
  for (size_t i = 0; i < values.size(); ++i) {
    const double wanted = std::round(values[i] / blob->range().scale) + blob->range().zero;
    const auto code =
        static_cast<uint16_t>(std::clamp<double>(wanted, info.code_min, info.code_max));
    if (blob->type() == kQuant8) {
      static_cast<uint8_t*>(codes)[i] = static_cast<uint8_t>(code);
    } else {
      static_cast<uint16_t*>(codes)[i] = code;
    }
  }
}

}  // namespace

// The version for which the blob of a cast or split stands; other blobs stand for themselves.
int Net::Version(int id) const {
  while (!versions_.count(id)) {
    const auto found = origin_.find(id);
    if (found == origin_.end()) break;
    id = found->second;
  }
  return id;
}

void Net::CopyVersion(int from, int to, bool diff) {
  const BlobBase& source = *blobs_[from];
  BlobBase& target = *blobs_[to];
  if (target.shape() != source.shape()) target.ReshapeLike(source);
  if (source.count() == 0) return;
  const bool same = source.type() == target.type();
  if (diff) {
    if (same) {
      device_->Copy(target.mutable_device_diff(), source.device_diff(), source.bytes());
    } else if (source.type().is_float() && target.type().is_float()) {
      target.SetDiff(source.DiffAsDouble());
    }
    return;
  }
  if (target.type().is_quantized()) {
    target.set_range(versions_.count(to) ? RangeAsRead(to) : same ? source.range() : QuantRange{});
  }
  const bool same_codes =
      source.range().scale == target.range().scale && source.range().zero == target.range().zero;
  if (same && (source.type().is_float() || same_codes)) {
    device_->Copy(target.mutable_device_data(), source.device_data(), source.bytes());
  } else {
    SetNumbers(&target, Numbers(source));
  }
}

// The range with which the layer that reads a quantized version takes its codes.
QuantRange Net::RangeAsRead(int id) const {
  for (const Node& node : nodes_) {
    for (size_t b = 0; b < node.bottom_ranges.size(); ++b) {
      if (node.bottom_ids[b] == id) return node.bottom_ranges[b].range;
    }
  }
  return {};
}

// Before a forward of nodes `first` to `last`: what they read of earlier versions is what the user's
// blob holds.
void Net::TakeVersions(int first, int last) {
  if (versions_.empty()) return;
  if (any_quantized_ && ranges_changed_) ResolveRanges();
  std::set<int> known;
  for (int n = first; n <= last; ++n) {
    for (int id : nodes_[n].bottom_ids) {
      const auto version = versions_.find(Version(id));
      if (version == versions_.end() || !known.insert(version->first).second) continue;
      CopyVersion(version->second, version->first, false);
    }
    for (int id : nodes_[n].top_ids) known.insert(Version(id));
  }
}

// After it: the user's blob holds what was written last.
void Net::PublishVersions(int first, int last) {
  if (versions_.empty()) return;
  std::map<int, int> written;
  for (int n = first; n <= last; ++n) {
    if (nodes_[n].public_index < 0) continue;
    for (int id : nodes_[n].top_ids) written[UserBlob(id)] = Version(id);
  }
  for (const auto& [blob, version] : written) {
    if (versions_.count(version)) CopyVersion(version, blob, false);
  }
}

// In callbacks the user's blobs hold what the layer reads or wrote, and may be changed.
void Net::RunForwardCallback(const Callback& callback, const Node& node,
                             const std::vector<int>& ids) {
  if (!callback || node.public_index < 0) return;
  struct Shown {
    int version, blob;
    uint64_t stamp;
  };
  std::vector<Shown> shown;
  for (int id : ids) {
    const auto version = versions_.find(Version(id));
    if (version == versions_.end() || !callbacks_see_blobs_) continue;
    CopyVersion(version->first, version->second, false);
    shown.push_back({version->first, version->second, 0});
  }
  SyncViews();
  for (Shown& one : shown) one.stamp = blobs_[one.blob]->data_version();
  callback(node.public_index);
  TakeViews();
  for (const Shown& one : shown) {
    if (blobs_[one.blob]->data_version() != one.stamp) CopyVersion(one.blob, one.version, false);
  }
}

// Where a layer was taken out of place and is the only reader of the earlier version, one memory
// serves for the diffs of both: layers that work in place write over the diff of their top. So a
// blob's diff is that of its first version.
void Net::ShareVersionDiffs() {
  if (versions_.empty()) return;
  std::set<int> copies;
  for (const Node& node : nodes_) {
    if (node.public_index < 0) {
      if (node.top_ids.size() > 1) copies.insert(node.top_ids.begin(), node.top_ids.end());
      continue;
    }
    for (size_t t = 0; t < node.top.size() && t < node.bottom.size(); ++t) {
      const int from = node.bottom_ids[t], to = node.top_ids[t];
      const BlobBase &bottom = *node.bottom[t], &top = *node.top[t];
      if (from == to || UserBlob(from) != UserBlob(to) || copies.count(from) ||
          !top.type().is_float() || bottom.type() != top.type() || bottom.count() != top.count()) {
        continue;
      }
      node.bottom[t]->ShareDiff(top);
    }
  }
}

// At the ends of a backward over a part of the net: diffs that are no shared memory.
void Net::CopyVersionDiffs(const std::vector<int>& ids, bool to_version) {
  for (int id : ids) {
    const auto version = versions_.find(Version(id));
    if (version == versions_.end()) continue;
    const auto [earlier, last] = *version;
    if (blobs_[earlier]->diff_memory() == blobs_[last]->diff_memory()) continue;
    CopyVersion(to_version ? last : earlier, to_version ? earlier : last, true);
  }
}

}  // namespace caffe
