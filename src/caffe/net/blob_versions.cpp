#include "blob_versions.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "caffe/device/device.hpp"
#include "caffe/quant/observer.hpp"
#include "net_ranges.hpp"

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

// Quantizes by the blob's range; without one, by the range of the values.
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

void BlobVersions::Copy(int from, int to, bool diff) {
  const BlobBase& source = *wiring_.blobs[from];
  BlobBase& target = *wiring_.blobs[to];
  if (target.shape() != source.shape()) target.ReshapeLike(source);
  if (source.count() == 0) return;
  const bool same = source.type() == target.type();
  if (diff) {
    if (same) {
      source.device()->Copy(target.mutable_device_diff(), source.device_diff(), source.bytes());
    } else if (source.type().is_float() && target.type().is_float()) {
      target.SetDiff(source.DiffAsDouble());
    }
    return;
  }
  if (target.type().is_quantized()) {
    target.set_range(wiring_.versions.count(to) ? ranges_->AsRead(to)
                     : same                     ? source.range()
                                                : QuantRange{});
  }
  const bool same_codes =
      source.range().scale == target.range().scale && source.range().zero == target.range().zero;
  if (same && (source.type().is_float() || same_codes)) {
    source.device()->Copy(target.mutable_device_data(), source.device_data(), source.bytes());
  } else {
    SetNumbers(&target, Numbers(source));
  }
}

void BlobVersions::Take(int first, int last) {
  if (wiring_.versions.empty()) return;
  ranges_->Update();
  std::set<int> known;
  for (int n = first; n <= last; ++n) {
    for (int id : wiring_.nodes[n].bottom_ids) {
      const auto version = wiring_.versions.find(wiring_.Version(id));
      if (version == wiring_.versions.end() || !known.insert(version->first).second) continue;
      Copy(version->second, version->first, false);
    }
    for (int id : wiring_.nodes[n].top_ids) known.insert(wiring_.Version(id));
  }
}

void BlobVersions::Publish(int first, int last) {
  if (wiring_.versions.empty()) return;
  std::map<int, int> written;
  for (int n = first; n <= last; ++n) {
    if (wiring_.nodes[n].added()) continue;
    for (int id : wiring_.nodes[n].top_ids) written[wiring_.UserBlob(id)] = wiring_.Version(id);
  }
  for (const auto& [blob, version] : written) {
    if (wiring_.versions.count(version)) Copy(version, blob, false);
  }
}

std::vector<BlobVersions::Shown> BlobVersions::Show(const std::vector<int>& ids) {
  std::vector<Shown> shown;
  for (int id : ids) {
    const auto version = wiring_.versions.find(wiring_.Version(id));
    if (version == wiring_.versions.end()) continue;
    Copy(version->first, version->second, false);
    shown.push_back({version->first, version->second, 0});
  }
  return shown;
}

void BlobVersions::Stamp(std::vector<Shown>* shown) const {
  for (Shown& one : *shown) one.stamp = wiring_.blobs[one.blob]->data_version();
}

void BlobVersions::TakeBack(const std::vector<Shown>& shown) {
  for (const Shown& one : shown) {
    if (wiring_.blobs[one.blob]->data_version() != one.stamp) Copy(one.blob, one.version, false);
  }
}

void BlobVersions::ShareDiffs() {
  if (wiring_.versions.empty()) return;
  std::set<int> copies;
  for (const Node& node : wiring_.nodes) {
    if (node.added() && node.top_ids.size() > 1) {
      copies.insert(node.top_ids.begin(), node.top_ids.end());
    }
  }
  // From the last version on, so that all versions get its memory.
  for (auto it = wiring_.nodes.rbegin(); it != wiring_.nodes.rend(); ++it) {
    const Node& node = *it;
    if (node.added()) continue;
    for (size_t t = 0; t < node.top.size() && t < node.bottom.size(); ++t) {
      const int from = node.bottom_ids[t], to = node.top_ids[t];
      const BlobBase &bottom = *node.bottom[t], &top = *node.top[t];
      if (from == to || wiring_.UserBlob(from) != wiring_.UserBlob(to) || copies.count(from) ||
          !top.type().is_float() || bottom.type() != top.type() || bottom.count() != top.count()) {
        continue;
      }
      node.bottom[t]->ShareDiff(top);
    }
  }
}

void BlobVersions::CopyDiffs(const std::vector<int>& ids, bool to_version) {
  for (int id : ids) {
    const auto version = wiring_.versions.find(wiring_.Version(id));
    if (version == wiring_.versions.end()) continue;
    const auto [earlier, last] = *version;
    if (wiring_.blobs[earlier]->diff_memory() == wiring_.blobs[last]->diff_memory()) continue;
    Copy(to_version ? last : earlier, to_version ? earlier : last, true);
  }
}

}  // namespace caffe
