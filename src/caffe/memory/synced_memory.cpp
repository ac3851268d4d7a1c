#include "caffe/memory/synced_memory.hpp"

#include <atomic>
#include <cstring>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/host_memory.hpp"
#include "caffe/device/graph.hpp"
#include "caffe/memory/access_log.hpp"
#include "caffe/memory/memory_watch.hpp"

namespace caffe {
namespace {

constexpr int64_t kHostAlignment = 256;

// One counter for all memories: two memories never have the same version, unless neither was
// written. So an equal version means equal content, even if a blob got another memory.
uint64_t NextVersion() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::shared_ptr<char> AllocateHost(int64_t bytes, const std::string& purpose) {
  char* memory = static_cast<char*>(AllocateHostMemory(bytes, kHostAlignment));
  CAFFE_CHECK(memory, purpose, ": out of host memory: ", bytes, " bytes were requested");
  return std::shared_ptr<char>(memory, [](char* p) { FreeHostMemory(p); });
}

}  // namespace

SyncedMemory::SyncedMemory(int64_t bytes, Device* device, std::string purpose)
    : bytes_(bytes), device_(device), purpose_(std::move(purpose)) {
  CAFFE_CHECK(bytes >= 0, purpose_, ": invalid size of ", bytes, " bytes");
}

// After a move to the CPU a host copy without a buffer is the whole memory.
DevicePtr SyncedMemory::pointer() const {
  return buffer() ? buffer()->pointer() + offset() : DevicePtr{host_.bytes.get(), 0};
}

bool SyncedMemory::one_copy() const {
  return device_->host_accessible() && host_.bytes && pointer().address() == host_.bytes.get();
}

void SyncedMemory::NeedHost() {
  if (host_.bytes) return;
  if (!device_->host_accessible()) {
    host_.bytes = AllocateHost(bytes_, purpose_);
    return;
  }
  NeedDevice();
  // A separate owner, which counts the views of this slice; it holds the buffer.
  host_.bytes = std::shared_ptr<char>(pointer().address(), [buffer = buffer()](char*) {});
}

void SyncedMemory::NeedDevice() {
  if (buffer() || (host_.bytes && device_->host_accessible())) return;
  placement_ = {.buffer = std::make_shared<DeviceBuffer>(device_, bytes_, purpose_)};
}

void SyncedMemory::Make() {
  const Origin origin = origin_;
  const std::shared_ptr<Source> source = origin.source.lock();
  CAFFE_CHECK(source, purpose_,
              ": its content was not kept, and the net that could compute it was destroyed; read "
              "it while the net exists, or have the net keep the blob");
  const uint64_t version = residency_.version;
  origin_.pending = false;
  residency_.discarded = true;
  try {
    source->Make(this);
    CAFFE_CHECK(residency_.filled(), purpose_, ": its source wrote nothing");
  } catch (...) {
    residency_ = {.version = version};
    origin_ = origin;
    throw;
  }
  if (origin.same_content) residency_.version = version;
  origin_ = {.form = origin.form, .form_version = origin.form_version};
}

void SyncedMemory::ToHost() {
  if (!stored()) Make();
  NeedHost();
  if (residency_.host) return;
  if (!residency_.device) {
    std::memset(host_.bytes.get(), 0, bytes_);
  } else if (!one_copy()) {
    device_->Download(host_.bytes.get(), pointer(), bytes_);
  }
  residency_.host = true;
  residency_.discarded = false;
}

void SyncedMemory::ToDevice() {
  if (!stored()) Make();
  NeedDevice();
  if (residency_.device) return;
  if (!residency_.host) {
    device_->Fill(pointer(), 0, bytes_);
  } else if (!one_copy()) {
    device_->Upload(pointer(), host_.bytes.get(), bytes_);
  }
  residency_.device = true;
  residency_.discarded = false;
}

// The content is another one now.
void SyncedMemory::Change(Residency to) {
  residency_ = to;
  residency_.version = NextVersion();
  if (origin_.pending || origin_.form) origin_ = {};
}

const void* SyncedMemory::host_data() {
  AccessLog::Note(this, AccessLog::Kind::kMove);
  ToHost();
  return host_.bytes.get();
}

DevicePtr SyncedMemory::device_data() {
  AccessLog::Note(this, AccessLog::Kind::kRead);
  ToDevice();
  NoteExtent();
  return pointer().ReadOnly();
}

bool SyncedMemory::Keeps(int64_t overwritten) const {
  return !residency_.discarded && (overwritten == 0 || (overwritten < bytes_ && stored()));
}

void* SyncedMemory::WriteHost(int64_t overwritten) {
  MemoryWatcher::Note(this, false);
  AccessLog::Note(this, AccessLog::Kind::kMove);
  const bool keep = Keeps(overwritten);
  CopyAdopted(keep);
  keep ? ToHost() : NeedHost();
  Change({.host = true});
  return host_.bytes.get();
}

DevicePtr SyncedMemory::WriteDevice(int64_t overwritten) {
  MemoryWatcher::Note(this, false);
  AccessLog::Note(this, AccessLog::Kind::kWrite);
  const bool keep = Keeps(overwritten);
  CopyAdopted(keep);
  keep ? ToDevice() : NeedDevice();
  Change({.device = true});
  NoteExtent();
  return pointer();
}

DevicePtr SyncedMemory::PrepareToWrite() {
  MemoryWatcher::Note(this, false);
  const bool keep = Keeps(0);
  CopyAdopted(keep);
  keep ? ToDevice() : NeedDevice();
  return pointer();
}

void SyncedMemory::MarkDeviceWritten() {
  AccessLog::Note(this, AccessLog::Kind::kWrite);
  CopyAdopted();
  NeedDevice();
  Change({.device = true});
}

void SyncedMemory::Discard() {
  AccessLog::Note(this, AccessLog::Kind::kMove);
  const bool stale = residency_.host && !residency_.device && buffer() && !one_copy();
  if (stored() && !stale) return;
  if (!stored()) origin_ = {};
  residency_.discarded = true;
}

// Other memories in the same buffer are not used through this memory's pointers.
void SyncedMemory::NoteExtent() const {
  if (placement_.kind != Placement::kOwn) Capture::NoteExtent(device_, pointer(), bytes_);
}

void SyncedMemory::Restore(const State& state) {
  residency_ = state.residency;
  placement_ = state.placement;
  origin_ = state.origin;
}

void SyncedMemory::SetDevice(Device* device) {
  if (device == device_) return;
  const bool filled = residency_.filled();
  if (filled) ToHost();
  // The host copy keeps its memory, so that views of it stay valid; but it does not hold an arena
  // that this memory leaves.
  if (placement_.kind != Placement::kOwn && one_copy()) SeparateHostCopy();
  placement_ = {};
  device_ = device;
  residency_ = {.host = filled, .version = residency_.version};
  if (!filled && !has_view()) host_ = {};
}

std::shared_ptr<void> SyncedMemory::View() {
  MemoryWatcher::Note(this, true);
  AccessLog::Note(this, AccessLog::Kind::kMove);
  if (!stored()) Make();
  residency_.discarded = false;  // the view may write a part
  if (borrowed()) MoveTo({.buffer = std::make_shared<DeviceBuffer>(device_, bytes_, purpose_)});
  CopyAdopted();
  MarkHostWritten();
  if (placement_.kind == Placement::kSlice && one_copy()) SeparateHostCopy();
  return host_.bytes;
}

void SyncedMemory::MarkHostWritten() {
  AccessLog::Note(this, AccessLog::Kind::kMove);
  ToHost();
  residency_ = {.host = true, .version = NextVersion()};
}

// Copies the content of the slice of the CPU's buffer to a separate host copy.
void SyncedMemory::SeparateHostCopy() {
  std::shared_ptr<char> copy = AllocateHost(bytes_, purpose_);
  if (residency_.filled()) std::memcpy(copy.get(), host_.bytes.get(), bytes_);
  host_.bytes = std::move(copy);
}

// Adopted bytes are replaced by memory of its own, with the same content if that matters.
void SyncedMemory::CopyAdopted(bool keep) {
  if (!host_.adopted) return;
  const HostCopy adopted = std::exchange(host_, {});
  residency_.host = residency_.host && keep;
  if (!residency_.host) return;
  NeedHost();
  std::memcpy(host_.bytes.get(), adopted.bytes.get(), bytes_);
}

void SyncedMemory::CheckFits(const DeviceBuffer& buffer, int64_t offset) const {
  CAFFE_CHECK(buffer.device() == device_, purpose_, " is on ", device_->info().id,
              " and cannot lie in ", buffer.purpose(), " on ", buffer.device()->info().id);
  CAFFE_CHECK(offset >= 0 && offset + bytes_ <= buffer.bytes(), purpose_, ": ", bytes_,
              " bytes at offset ", offset, " do not fit in ", buffer.purpose(), " of ",
              buffer.bytes(), " bytes");
}

void SyncedMemory::MoveInto(std::shared_ptr<DeviceBuffer> buffer, int64_t offset) {
  AccessLog::Note(this, AccessLog::Kind::kMove);
  if (buffer == placement_.buffer && offset == placement_.offset) {
    placement_.kind = Placement::kSlice;
    return;
  }
  CheckFits(*buffer, offset);
  if (!stored()) Make();
  MoveTo({Placement::kSlice, std::move(buffer), offset});
}

// The content moves along.
void SyncedMemory::MoveTo(Placement to) {
  const bool one = one_copy();
  if (one ? residency_.filled() : residency_.device) {
    device_->Copy(to.buffer->pointer() + to.offset, pointer(), bytes_);
  }
  if (one) {
    residency_.host = residency_.device = residency_.filled();
    // With a view the host copy stays in its memory, besides the one in the arena.
    if (!has_view()) host_ = {};
  }
  if (residency_.filled()) residency_.discarded = false;
  placement_ = std::move(to);
}

bool SyncedMemory::Borrow(std::shared_ptr<DeviceBuffer> buffer, int64_t offset) {
  if (has_view()) return false;
  AccessLog::Note(this, AccessLog::Kind::kMove);
  CheckFits(*buffer, offset);
  if (host_.adopted || device_->host_accessible()) host_ = {};
  placement_ = {Placement::kBorrowed, std::move(buffer), offset};
  Change({.discarded = true});
  return true;
}

void SyncedMemory::Return() {
  if (!borrowed()) return;
  AccessLog::Note(this, AccessLog::Kind::kMove);
  if (one_copy()) host_ = {};
  placement_ = {};
  Change({.discarded = true});
}

void SyncedMemory::SetSource(std::weak_ptr<Source> source) {
  AccessLog::Note(this, AccessLog::Kind::kMove);
  Return();
  Change({});
  origin_.pending = true;
  origin_.source = std::move(source);
}

void SyncedMemory::OwnSource(std::shared_ptr<Source> source) {
  MemoryWatcher::Note(this, false);
  SetSource(source);
  origin_.own = std::move(source);
  origin_.same_content = true;
}

void SyncedMemory::SetForm(std::shared_ptr<Source> form) {
  OwnSource(form);
  if (!has_view()) {
    host_ = {};
    if (placement_.kind == Placement::kOwn) placement_ = {};
  }
  origin_.form = std::move(form);
  origin_.form_version = residency_.version;
}

void SyncedMemory::Adopt(std::shared_ptr<const void> bytes) {
  if (has_view() || placement_.kind == Placement::kSlice) {
    std::memcpy(overwrite_host_data(bytes_), bytes.get(), bytes_);
    return;
  }
  MemoryWatcher::Note(this, false);
  AccessLog::Note(this, AccessLog::Kind::kMove);
  char* const first = const_cast<char*>(static_cast<const char*>(bytes.get()));
  host_ = {std::shared_ptr<char>(first, [bytes = std::move(bytes)](char*) {}), true};
  placement_ = {};
  Change({.host = true});
}

void SyncedMemory::FreeUntilAccess(std::weak_ptr<Source> source) {
  if (!residency_.filled() || has_view() || placement_.kind != Placement::kOwn) return;
  host_ = {};
  placement_ = {};
  residency_ = {.version = residency_.version};
  origin_.pending = origin_.same_content = true;
  origin_.source = std::move(source);
}

void SyncedMemory::FreeDeviceCopy() {
  const bool own = placement_.kind == Placement::kOwn;
  if (!residency_.host || !own || device_->host_accessible()) return;
  placement_ = {};
  residency_.device = residency_.discarded = false;
}

}  // namespace caffe
