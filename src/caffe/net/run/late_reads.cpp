#include "late_reads.hpp"

#include <algorithm>
#include <cstring>

namespace caffe {
std::shared_ptr<BlobBase> HolderOf(const BlobBase& blob) {
  auto holder = MakeBlob(blob.type(), blob.device(), blob.shape(), blob.name());
  holder->ShareData(blob);
  return holder;
}

void TakeMemory(BlobBase* blob, const BlobBase& source) {
  const QuantRange range = blob->range();
  blob->ShareData(source);
  blob->set_range(range);
}

std::vector<BlobBase*> BlobsWith(const Wiring& wiring, const SyncedMemory* memory) {
  std::vector<BlobBase*> found;
  const auto add = [&](const std::shared_ptr<BlobBase>& blob) {
    if (blob->data_memory().get() == memory) found.push_back(blob.get());
  };
  for (const auto& blob : wiring.blobs) add(blob);
  for (const Node& node : wiring.nodes) {
    for (const auto& blob : node.layer->blobs()) add(blob);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

void LateReads::ExpectForward(bool yes) {
  const auto lock = Lock();
  expects_forward_ = yes;
}

void LateReads::Sort(std::vector<BlobBase*>* blobs) {
  const auto before = [](const BlobBase* a, const BlobBase* b) {
    return a->data_memory().get() < b->data_memory().get();
  };
  const auto same = [](const BlobBase* a, const BlobBase* b) {
    return a->data_memory() == b->data_memory();
  };
  std::sort(blobs->begin(), blobs->end(), before);
  blobs->erase(std::unique(blobs->begin(), blobs->end(), same), blobs->end());
}

bool LateReads::Records(const std::vector<BlobBase*>& blobs) const {
  return std::equal(blobs.begin(), blobs.end(), reads_.begin(), reads_.end(),
                    [](const BlobBase* blob, const Read& read) {
                      return blob == read.blob && blob->data_memory().get() == read.memory;
                    });
}

void LateReads::Record(const std::vector<BlobBase*>& blobs, bool again) {
  if (blobs.empty() && reads_.empty()) return;
  if (!Records(blobs)) {
    const auto lock = Lock();
    std::vector<Read> before = std::move(reads_);
    reads_.clear();
    UnwatchAll();
    auto old = before.begin();
    for (BlobBase* blob : blobs) {
      SyncedMemory* const memory = blob->data_memory().get();
      while (old != before.end() && old->memory < memory) ++old;
      const bool found = again && old != before.end() && old->memory == memory;
      reads_.push_back(found ? std::move(*old) : Read{blob, memory, memory->version()});
      reads_.back().blob = blob;
      Watch(memory);
    }
  }
  for (Read& read : reads_) {
    if (!read.memory->stored()) read.version = read.memory->version();
    if (again) continue;
    if (!read.copied) read.copy.reset();
    read.copied = false;
    read.version = read.memory->version();
    if (read.memory->stored() && read.memory->has_view()) Copy(&read);
  }
  if (!again) expects_forward_ = false;
  active_ = !reads_.empty();
}

const LateReads::Read* LateReads::Find(const SyncedMemory* memory) const {
  const auto found =
      std::lower_bound(reads_.begin(), reads_.end(), memory,
                       [](const Read& read, const SyncedMemory* m) { return read.memory < m; });
  return found != reads_.end() && found->memory == memory ? &*found : nullptr;
}

LateReads::Read* LateReads::Find(const SyncedMemory* memory) {
  return const_cast<Read*>(static_cast<const LateReads*>(this)->Find(memory));
}

void LateReads::Renew(const BlobBase& blob) {
  const auto lock = Lock();
  Read* const read = Find(blob.data_memory().get());
  if (!read) return;
  read->version = read->memory->version();
  read->copied = false;
}

void LateReads::Copy(Read* read) {
  const BlobBase& blob = *read->blob;
  if (!read->copy || read->copy->shape() != blob.shape() || read->copy->device() != blob.device()) {
    read->copy = MakeBlob(blob.type(), blob.device(), blob.shape(), blob.name());
  }
  SyncedMemory& memory = *blob.data_memory();
  if (memory.form() && memory.form_is_content()) {
    read->copy->data_memory()->SetForm(memory.form());
  } else {
    std::memcpy(read->copy->overwrite_host_data(), blob.host_data(), blob.bytes());
  }
  read->copied = true;
}

void LateReads::BeforeChange(SyncedMemory* memory, bool) {
  if (!active_ || expects_forward_) return;
  Read* read = Find(memory);
  if (!read || read->copied || read->version != memory->version()) return;
  if (read->blob->data_memory().get() != memory) return;
  if (!memory->stored() && !memory->form()) {
    memory->device_data();  // computes it
    read = Find(memory);
    if (!read) return;
  }
  const Quiet quiet;
  Copy(read);
}

bool LateReads::Has(const BlobBase& blob) const {
  const SyncedMemory* const memory = blob.data_memory().get();
  for (const Read& read : reads_) {
    if (read.copied && read.copy->data_memory().get() == memory) return true;
  }
  const Read* const read = Find(memory);
  return !active_ || (read && read->version == memory->version());
}

LateReads::Restored::Restored(const LateReads& reads) {
  const auto lock = Lock();
  for (const Read& read : reads.reads_) {
    if (!read.copied) continue;
    if (read.blob->data_memory().get() != read.memory) continue;
    if (read.copy->device() != read.blob->device()) read.copy->SetDevice(read.blob->device());
    for (BlobBase* blob : BlobsWith(reads.wiring_, read.memory)) {
      if (blob->count() != read.copy->count()) continue;
      changed_.emplace_back(blob, HolderOf(*blob));
      TakeMemory(blob, *read.copy);
    }
  }
}

LateReads::Restored::~Restored() {
  for (const auto& [blob, holder] : changed_) TakeMemory(blob, *holder);
}

}  // namespace caffe
