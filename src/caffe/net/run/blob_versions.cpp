#include "blob_versions.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "caffe/device/device.hpp"
#include "caffe/net/ranges/net_ranges.hpp"
#include "caffe/quant/codes.hpp"
#include "caffe/quant/range.hpp"
#include "late_reads.hpp"

namespace caffe {
namespace {

std::vector<double> Numbers(const BlobBase& blob) {
  if (blob.type().is_float()) return blob.DataAsDouble();
  std::vector<double> values(blob.count());
  DecodeCodes(blob.host_data(), blob.count(), blob.range(), blob.type(), values.data());
  return values;
}

// Quantizes by the blob's range; without one, by the range of the values.
void SetNumbers(BlobBase* blob, const std::vector<double>& values) {
  if (blob->type().is_float()) return blob->SetData(values);
  if (!blob->range().observed) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    blob->set_range(AffineRange({*low, *high}, blob->type()));
  }
  EncodeCodes(values.data(), blob->count(), blob->range(), blob->type(),
              blob->overwrite_host_data());
}

}  // namespace

BlobVersions::BlobVersions(const Wiring& wiring, NetRanges* ranges)
    : wiring_(wiring), ranges_(ranges) {
  for (const Node& node : wiring.nodes) {
    if (node.nested_in >= 0 || !TraitsOf(node.layer->type()).input) continue;
    for (int top : node.top_ids) {
      const auto version = wiring.versions.find(wiring.Version(top));
      if (version == wiring.versions.end()) continue;
      inputs_.push_back({version->first, version->second});
    }
  }
  NoteInputs();
}

BlobVersions::Input* BlobVersions::Find(const BlobBase& blob) {
  for (Input& input : inputs_) {
    if (wiring_.blobs[input.last].get() == &blob) return &input;
  }
  return nullptr;
}

std::vector<std::pair<int, int>> BlobVersions::ChangedInputs() const {
  std::vector<std::pair<int, int>> ids;
  for (const Input& input : inputs_) ids.emplace_back(input.first, input.last);
  return ids;
}

BlobBase* BlobVersions::FirstVersion(const BlobBase& blob) {
  const Input* const input = Find(blob);
  return input ? wiring_.blobs[input->first].get() : nullptr;
}

void BlobVersions::BeforeChange(SyncedMemory* memory, bool view) {
  for (Input& input : inputs_) {
    if (input.watched != memory || wiring_.blobs[input.last]->data_memory().get() != memory)
      continue;
    if (!view) {
      input.written = true;
    } else if (!input.has_shown && memory->version() == input.seen) {
      KeepShown(&input);
    }
  }
}

bool BlobVersions::IsWritten(const Input& input) const {
  const BlobBase& last = *wiring_.blobs[input.last];
  // New memory, after a reshape.
  if (last.data_memory().get() != input.watched) return last.data_version() != 0;
  if (input.written) return true;
  // A view may have been written and destroyed.
  if (!input.has_shown) return last.data_version() != input.seen;
  return static_cast<int64_t>(input.shown.size()) != last.bytes() ||
         std::memcmp(input.shown.data(), last.host_data(), input.shown.size()) != 0;
}

void BlobVersions::ShapeInputs() {
  for (const Input& input : inputs_) {
    const BlobBase& last = *wiring_.blobs[input.last];
    BlobBase& first = *wiring_.blobs[input.first];
    if (first.shape() != last.shape()) first.ReshapeLike(last);
  }
}

std::vector<int> BlobVersions::WrittenInputs() const {
  std::vector<int> ids;
  for (const Input& input : inputs_) {
    if (IsWritten(input)) ids.push_back(input.first);
  }
  return ids;
}

void BlobVersions::TakeInputs() {
  if (inputs_.empty()) return;
  ShapeInputs();
  ranges_->Update();
  for (const Input& input : inputs_) {
    if (IsWritten(input)) Copy(input.last, input.first, false);
  }
}

void BlobVersions::KeepShown(Input* input) {
  const BlobBase& last = *wiring_.blobs[input->last];
  const char* const content = static_cast<const char*>(last.host_data());
  input->shown.assign(content, content + last.bytes());
  input->has_shown = true;
}

void BlobVersions::Note(Input* input) {
  const BlobBase& last = *wiring_.blobs[input->last];
  input->seen = last.data_version();
  input->written = input->has_shown = false;
  if (last.data_memory()->has_view()) KeepShown(input);
  if (input->watched == last.data_memory().get()) return;
  input->watched = last.data_memory().get();
  UnwatchAll();
  for (const Input& one : inputs_) {
    if (one.watched) Watch(one.watched);
  }
}

void BlobVersions::NoteInputs() {
  for (Input& input : inputs_) Note(&input);
}

void BlobVersions::NoteInput(const BlobBase& blob) {
  if (Input* input = Find(blob)) Note(input);
}

void BlobVersions::NoteWritten(const BlobBase& blob) {
  if (Input* input = Find(blob)) input->written = true;
}

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
  if (target.type().has_range()) {
    target.set_range(wiring_.versions.count(to) ? ranges_->AsRead(to)
                     : same                     ? source.range()
                                                : QuantRange{});
  }
  const bool same_codes =
      source.range().scale == target.range().scale && source.range().zero == target.range().zero;
  if (same && (!source.type().has_range() || same_codes)) {
    const DevicePtr data = source.device_data();
    source.device()->Copy(target.overwrite_device_data().AsBytes(), data.AsBytes(), source.bytes());
  } else {
    SetNumbers(&target, Numbers(source));
  }
}

void BlobVersions::Separate(int version, Taken* taken) {
  const BlobBase& blob = *wiring_.blobs[version];
  const SyncedMemory* const memory = blob.data_memory().get();
  std::vector<int> own;  // and those of added layers
  bool shared = false;
  for (int id = 0; id < static_cast<int>(wiring_.blobs.size()); ++id) {
    if (wiring_.blobs[id]->data_memory().get() != memory) continue;
    shared = shared || wiring_.UserBlob(id) != wiring_.UserBlob(version);
    if (wiring_.Version(id) == version) own.push_back(id);
  }
  if (!shared) return;
  if (!memory->stored()) blob.device_data();  // the other blobs need it
  const auto separate = MakeBlob(blob.type(), blob.device(), blob.shape(), blob.name());
  for (int id : own) {
    BlobBase* const one = wiring_.blobs[id].get();
    taken->push_back(std::shared_ptr<void>(nullptr, [one, holder = HolderOf(*one)](void*) {
      if (one->count() == holder->count()) TakeMemory(one, *holder);
    }));
    TakeMemory(one, *separate);
  }
}

BlobVersions::Taken BlobVersions::Take(int first, int last) {
  Taken taken;
  if (wiring_.versions.empty()) return taken;
  ranges_->Update();
  std::set<int> known;
  for (const Input& input : inputs_) known.insert(input.first);
  for (int n = first; n <= last; ++n) {
    for (int id : wiring_.nodes[n].bottom_ids) {
      const auto version = wiring_.versions.find(wiring_.Version(id));
      if (version == wiring_.versions.end() || !known.insert(version->first).second) continue;
      wiring_.blobs[version->second]->device_data();  // it may be computed from the version
      Separate(version->first, &taken);
      Copy(version->second, version->first, false);
    }
    for (int id : wiring_.nodes[n].top_ids) known.insert(wiring_.Version(id));
  }
  return taken;
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
