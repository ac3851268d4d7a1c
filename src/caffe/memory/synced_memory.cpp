#include "caffe/memory/synced_memory.hpp"

#include <atomic>
#include <cstring>

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
  return buffer_ ? buffer_->pointer() + offset_ : DevicePtr{host_.get(), 0};
}

bool SyncedMemory::one_copy() const {
  return device_->host_accessible() && host_ && pointer().address() == host_.get();
}

void SyncedMemory::NeedHost() {
  if (host_) return;
  if (!device_->host_accessible()) {
    host_ = AllocateHost(bytes_, purpose_);
    return;
  }
  NeedDevice();
  // A separate owner, which counts the views of this slice; it holds the buffer.
  host_ = std::shared_ptr<char>(pointer().address(), [buffer = buffer_](char*) {});
}

void SyncedMemory::NeedDevice() {
  if (buffer_ || (host_ && device_->host_accessible())) return;
  buffer_ = std::make_shared<DeviceBuffer>(device_, bytes_, purpose_);
  offset_ = 0;
  room_ = Room::kOwn;
}

void SyncedMemory::Make() {
  const std::shared_ptr<Source> source = own_source_ ? own_source_ : source_.lock();
  CAFFE_CHECK(source, purpose_,
              ": its content was not kept, and the net that could compute it was destroyed; read "
              "it while the net exists, or have the net keep the blob");
  head_ = Head::kUndefined;
  const uint64_t version = version_;
  const std::shared_ptr<Source> form = form_;
  try {
    source->Make(this);
    CAFFE_CHECK(filled(), purpose_, ": its source wrote nothing");
  } catch (...) {
    head_ = Head::kElsewhere;
    form_ = form;
    throw;
  }
  if (same_content_) version_ = version;
  form_ = form;
  own_source_.reset();
}

void SyncedMemory::ToHost() {
  if (head_ == Head::kElsewhere) Make();
  NeedHost();
  if (!filled()) {
    std::memset(host_.get(), 0, bytes_);
    head_ = Head::kHost;
  } else if (head_ == Head::kDevice) {
    if (!one_copy()) device_->Download(host_.get(), pointer(), bytes_);
    head_ = Head::kSynced;
  }
}

void SyncedMemory::ToDevice() {
  if (head_ == Head::kElsewhere) Make();
  NeedDevice();
  if (!filled()) {
    device_->Fill(pointer(), 0, bytes_);
    head_ = Head::kDevice;
  } else if (head_ == Head::kHost) {
    if (!one_copy()) device_->Upload(pointer(), host_.get(), bytes_);
    head_ = Head::kSynced;
  }
}

void SyncedMemory::Written() {
  form_.reset();
  version_ = NextVersion();
}

const void* SyncedMemory::host_data() {
  AccessLog::Note(this, AccessLog::Kind::kMove);
  ToHost();
  return host_.get();
}

void* SyncedMemory::mutable_host_data() {
  MemoryWatcher::Note(this, false);
  AccessLog::Note(this, AccessLog::Kind::kMove);
  head_ == Head::kUndefined ? NeedHost() : ToHost();
  CopyAdopted();
  head_ = Head::kHost;
  Written();
  return host_.get();
}

DevicePtr SyncedMemory::device_data() {
  AccessLog::Note(this, AccessLog::Kind::kRead);
  ToDevice();
  NoteExtent();
  return pointer().ReadOnly();
}

DevicePtr SyncedMemory::mutable_device_data() {
  MemoryWatcher::Note(this, false);
  AccessLog::Note(this, AccessLog::Kind::kWrite);
  CopyAdopted();
  head_ == Head::kUndefined ? NeedDevice() : ToDevice();
  head_ = Head::kDevice;
  Written();
  NoteExtent();
  return pointer();
}

// Other memories in the same buffer are not used through this memory's pointers.
void SyncedMemory::NoteExtent() const {
  if (room_ != Room::kOwn) Capture::NoteExtent(device_, pointer(), bytes_);
}

DevicePtr SyncedMemory::PrepareToWrite() {
  MemoryWatcher::Note(this, false);
  CopyAdopted();
  head_ == Head::kUndefined ? NeedDevice() : ToDevice();
  return pointer();
}

SyncedMemory::State SyncedMemory::Save() const {
  State state;
  state.head = head_;
  state.room = room_;
  state.buffer = buffer_;
  state.offset = offset_;
  state.version = version_;
  state.source = source_;
  state.own_source = own_source_;
  state.form = form_;
  state.form_version = form_version_;
  state.same_content = same_content_;
  return state;
}

void SyncedMemory::Restore(const State& state) {
  head_ = state.head;
  room_ = state.room;
  buffer_ = state.buffer;
  offset_ = state.offset;
  version_ = state.version;
  source_ = state.source;
  own_source_ = state.own_source;
  form_ = state.form;
  form_version_ = state.form_version;
  same_content_ = state.same_content;
}

void SyncedMemory::SetDevice(Device* device) {
  if (device == device_) return;
  if (filled()) ToHost();
  // The host copy keeps its memory, so that views of it stay valid; but it does not hold an arena
  // that this memory leaves.
  if (room_ != Room::kOwn && one_copy()) SeparateHostCopy();
  buffer_.reset();
  offset_ = 0;
  room_ = Room::kOwn;
  device_ = device;
  if (filled()) {
    head_ = Head::kHost;
    return;
  }
  if (!has_view()) host_.reset();
  if (head_ == Head::kUndefined) head_ = Head::kEmpty;
}

std::shared_ptr<void> SyncedMemory::View() {
  MemoryWatcher::Note(this, true);
  if (head_ == Head::kElsewhere) Make();
  if (borrowed()) TakeOwnBuffer();
  CopyAdopted();
  MarkHostWritten();
  if (room_ == Room::kSlice && one_copy()) SeparateHostCopy();
  return host_;
}

// Copies the content of the slice of the CPU's buffer to a separate host copy.
void SyncedMemory::SeparateHostCopy() {
  std::shared_ptr<char> copy = AllocateHost(bytes_, purpose_);
  if (filled()) std::memcpy(copy.get(), host_.get(), bytes_);
  host_ = std::move(copy);
}

// Adopted bytes are replaced by memory of its own with the same content.
void SyncedMemory::CopyAdopted() {
  if (!adopted_) return;
  const std::shared_ptr<char> bytes = std::move(host_);
  host_.reset();
  adopted_ = false;
  NeedHost();
  std::memcpy(host_.get(), bytes.get(), bytes_);
}

void SyncedMemory::ForgetAdopted() {
  if (!adopted_) return;
  host_.reset();
  adopted_ = false;
}

void SyncedMemory::TakeOwnBuffer() {
  const std::shared_ptr<DeviceBuffer> arena = std::move(buffer_);
  const DevicePtr source = arena->pointer() + offset_;
  const bool one = device_->host_accessible() && host_ && host_.get() == source.address();
  if (one) host_.reset();
  buffer_.reset();
  NeedDevice();
  if (one ? filled() : head_ == Head::kDevice || head_ == Head::kSynced) {
    device_->Copy(pointer(), source, bytes_);
  }
  room_ = Room::kOwn;
}

void SyncedMemory::ForgetHostWrites() {
  AccessLog::Note(this, AccessLog::Kind::kMove);
  if (head_ == Head::kElsewhere) {
    head_ = Head::kUndefined;
    own_source_.reset();
  }
  if (head_ == Head::kHost && adopted_) {
    ForgetAdopted();
    head_ = buffer_ ? Head::kDevice : Head::kUndefined;
  }
  if (head_ == Head::kHost && buffer_ && !one_copy()) head_ = Head::kSynced;
}

void SyncedMemory::MarkHostWritten() {
  AccessLog::Note(this, AccessLog::Kind::kMove);
  ToHost();
  head_ = Head::kHost;
  version_ = NextVersion();
}

void SyncedMemory::MarkDeviceWritten() {
  AccessLog::Note(this, AccessLog::Kind::kWrite);
  CopyAdopted();
  NeedDevice();
  head_ = Head::kDevice;
  Written();
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
  if (buffer == buffer_ && offset == offset_) {
    room_ = Room::kSlice;
    return;
  }
  CheckFits(*buffer, offset);
  if (head_ == Head::kElsewhere) Make();
  const DevicePtr target = buffer->pointer() + offset;
  if (one_copy()) {
    if (filled()) {
      device_->Copy(target, pointer(), bytes_);
      head_ = Head::kSynced;
    }
    // With a view the host copy stays in its memory, besides the one in the arena.
    if (!has_view()) host_.reset();
    adopted_ = false;
  } else if (head_ == Head::kDevice || head_ == Head::kSynced) {
    device_->Copy(target, pointer(), bytes_);
  }
  buffer_ = std::move(buffer);
  offset_ = offset;
  room_ = Room::kSlice;
}

bool SyncedMemory::Borrow(std::shared_ptr<DeviceBuffer> buffer, int64_t offset) {
  if (has_view()) return false;
  AccessLog::Note(this, AccessLog::Kind::kMove);
  CheckFits(*buffer, offset);
  ForgetAdopted();
  if (device_->host_accessible()) host_.reset();
  buffer_ = std::move(buffer);
  offset_ = offset;
  room_ = Room::kBorrowed;
  head_ = Head::kUndefined;
  Written();
  return true;
}

void SyncedMemory::Return() {
  if (!borrowed()) return;
  AccessLog::Note(this, AccessLog::Kind::kMove);
  if (one_copy()) host_.reset();
  buffer_.reset();
  offset_ = 0;
  room_ = Room::kOwn;
  head_ = Head::kUndefined;
  Written();
}

void SyncedMemory::SetSource(std::weak_ptr<Source> source) {
  AccessLog::Note(this, AccessLog::Kind::kMove);
  Return();
  source_ = std::move(source);
  own_source_.reset();
  same_content_ = false;
  head_ = Head::kElsewhere;
  Written();
}

void SyncedMemory::OwnSource(std::shared_ptr<Source> source) {
  MemoryWatcher::Note(this, false);
  SetSource({});
  own_source_ = std::move(source);
  same_content_ = true;
}

void SyncedMemory::SetForm(std::shared_ptr<Source> form) {
  OwnSource(form);
  if (!has_view()) {
    host_.reset();
    adopted_ = false;
    if (room_ == Room::kOwn) buffer_.reset();
  }
  form_ = std::move(form);
  form_version_ = version_;
}

void SyncedMemory::Adopt(std::shared_ptr<const void> bytes) {
  MemoryWatcher::Note(this, false);
  ForgetHostWrites();
  if (has_view() || room_ == Room::kSlice) {
    std::memcpy(mutable_host_data(), bytes.get(), bytes_);
    return;
  }
  Return();
  buffer_.reset();
  offset_ = 0;
  own_source_.reset();
  char* const first = const_cast<char*>(static_cast<const char*>(bytes.get()));
  host_ = std::shared_ptr<char>(first, [bytes = std::move(bytes)](char*) {});
  adopted_ = true;
  head_ = Head::kHost;
  Written();
}

void SyncedMemory::FreeUntilAccess(std::weak_ptr<Source> source) {
  if (!filled() || has_view() || room_ != Room::kOwn) return;
  source_ = std::move(source);
  same_content_ = true;
  host_.reset();
  adopted_ = false;
  buffer_.reset();
  head_ = Head::kElsewhere;
}

void SyncedMemory::FreeDeviceCopy() {
  const bool on_host = head_ == Head::kHost || head_ == Head::kSynced;
  if (!on_host || room_ != Room::kOwn || device_->host_accessible()) return;
  buffer_.reset();
  head_ = Head::kHost;
}

}  // namespace caffe
