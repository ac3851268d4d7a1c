#include "caffe/device/device.hpp"

#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/buffer_pool.hpp"

namespace caffe {

Device::Device(DeviceInfo info)
    : info_(std::move(info)), buffers_(std::make_unique<BufferPool>(this)) {}

Device::~Device() { *self_ = nullptr; }

DevicePtr Device::Allocate(int64_t bytes, std::string_view purpose) {
  CheckNotRecording("Allocate");
  return buffers_->Allocate(bytes, purpose);
}
void Device::Free(DevicePtr pointer) noexcept { buffers_->Free(pointer); }
void Device::ReleaseCache() noexcept { buffers_->ReleaseCache(); }
void Device::FreeEverything() noexcept { buffers_->FreeEverything(); }
int64_t Device::bytes_in_use() const { return buffers_->bytes_in_use(); }
int64_t Device::bytes_peak() const { return buffers_->bytes_peak(); }
void Device::ResetPeak() { buffers_->ResetPeak(); }

void Device::CheckWritable(DevicePtr target, const char* call) const {
  CAFFE_CHECK(!target.read_only, info_.id, ": ", call,
              " cannot write to a read-only pointer: pass mutable_device_data() or "
              "mutable_device_diff() instead of device_data() or device_diff()");
}

namespace {

void CheckBytes(const DevicePtr& pointer, const char* call) {
  CAFFE_CHECK(!pointer.packed, call,
              " counts bytes, but the array has two elements in a byte; this ",
              "layer does not support such a type: register it without packed");
}

}  // namespace

void Device::Upload(DevicePtr target, const void* source, int64_t bytes) {
  if (bytes == 0) return;
  CheckBytes(target, "Upload");
  CheckNotRecording("Upload");
  CheckWritable(target, "Upload");
  NoteUse({target});
  DoUpload(target, source, bytes);
  ++uploads_;
  upload_bytes_ += bytes;
}

void Device::Download(void* target, DevicePtr source, int64_t bytes) {
  if (bytes == 0) return;
  CheckBytes(source, "Download");
  CheckNotRecording("Download");
  NoteUse({source.ReadOnly()});
  DoDownload(target, source, bytes);
  ++downloads_;
  ++syncs_;
  download_bytes_ += bytes;
}

void Device::Copy(DevicePtr target, DevicePtr source, int64_t bytes) {
  if (bytes == 0 || target == source) return;
  CheckWritable(target, "Copy");
  CheckBytes(source, "Copy");
  CheckBytes(target, "Copy");
  CAFFE_CHECK(!source.scaled || !target.scaled || source.exponent == target.exponent,
              "Copy moves codes with the scale 2^", source.exponent, " to an array with 2^",
              target.exponent, "; this layer does not support a type with a scale for each blob");
  for (const DevicePtr& pointer : {source, target}) Capture::NoteExtent(this, pointer, bytes);
  NoteUse({source.ReadOnly(), target});
  const auto copy = [=, this] { DoCopy(target, source, bytes); };
  if (!Capture::Recording(this) || !Capture::Keep(this, copy)) copy();
  ++copies_;
}

void Device::Fill(DevicePtr target, uint8_t byte, int64_t bytes) {
  if (bytes == 0) return;
  CheckWritable(target, "Fill");
  CheckBytes(target, "Fill");
  Capture::NoteExtent(this, target, bytes);
  NoteUse({target});
  const auto fill = [=, this] { DoFill(target, byte, bytes); };
  if (!Capture::Recording(this) || !Capture::Keep(this, fill)) fill();
}

void Device::Synchronize() {
  CheckNotRecording("Synchronize");
  DoSynchronize();
  ++syncs_;
}

Stream* Device::current_stream() {
  for (const StreamScope* scope = StreamScope::Innermost(); scope; scope = scope->outer()) {
    if (scope->device() == this) return scope->stream() ? scope->stream() : default_stream();
  }
  return default_stream();
}

std::unique_ptr<Stream> Device::CreateStream() {
  std::unique_ptr<Stream> stream = DoCreateStream();
  // The CPU's streams are not registered: calls return when their work is done, in order.
  if (!host_accessible()) {
    buffers_->Add(stream.get());
    if (!has_streams_.exchange(true)) ++tracks_use_;
  }
  return stream;
}

std::unique_ptr<Event> Device::RecordEvent(bool timed) {
  CheckNotRecording("RecordEvent");
  return current_stream()->Record(timed);
}

// Graph::Launch orders the work of a record: no stream of another thread can be waited for in it.
void Device::OrderUse(std::span<const DevicePtr> pointers) {
  if (Capture* capture = Capture::Of(this)) {
    capture->NoteUse(pointers);
  } else if (has_streams()) {
    buffers_->OrderUse(pointers);
  }
}

uint64_t Device::frees() const { return buffers_->frees(); }
std::vector<uint64_t> Device::Allocations(std::span<const DevicePtr> pointers) const {
  return buffers_->Allocations(pointers);
}

void Device::CheckNotRecording(const char* call) const {
  if (tracks_use() && Capture::Of(this)) {
    CAFFE_THROW(info_.id, ": ", call, " cannot be recorded in a graph");
  }
}

Stream* Device::BeginCapture() {
  capture_mutex_.lock();
  ++tracks_use_;
  try {
    return DoBeginCapture();
  } catch (...) {
    --tracks_use_;
    capture_mutex_.unlock();
    throw;
  }
}

std::unique_ptr<Graph> Device::EndCapture() {
  const std::lock_guard lock(capture_mutex_, std::adopt_lock);
  --tracks_use_;
  return DoEndCapture(true);
}

void Device::AbandonCapture() noexcept {
  const std::lock_guard lock(capture_mutex_, std::adopt_lock);
  --tracks_use_;
  try {
    DoEndCapture(false);
  } catch (const std::exception& error) {
    log::Error(error.what());
  }
}

Stream* Device::DoBeginCapture() { CAFFE_THROW(info_.id, ": this device cannot record work"); }
std::unique_ptr<Graph> Device::DoEndCapture(bool) { return nullptr; }

std::shared_ptr<Program> Device::Build(const ProgramText& text, bool use_cache) {
  if (!use_cache) return DoBuild(text, false);
  // The CPU's programs have no text: name and types identify them.
  std::string key = text.types.name() + "\n" + text.options + "\n" + text.source;
  if (text.source.empty()) {
    for (const KernelSignature& kernel : text.kernels) key += kernel.name + "\n";
  }
  const std::lock_guard lock(program_mutex_);
  const auto found = programs_.find(key);
  if (found != programs_.end()) {
    if (std::shared_ptr<Program> program = found->second.lock()) return program;
  }
  std::shared_ptr<Program> program = DoBuild(text, true);
  // Keys are complete texts: drop the keys of programs that no longer exist.
  std::erase_if(programs_, [](const auto& entry) { return entry.second.expired(); });
  programs_[key] = program;
  return program;
}

DeviceCounters Device::counters() const {
  DeviceCounters counters;
  counters.launches = launches_;
  counters.graph_launches = graph_launches_;
  counters.library_calls = library_calls_;
  counters.uploads = uploads_;
  counters.downloads = downloads_;
  counters.copies = copies_;
  counters.syncs = syncs_;
  counters.builds = builds_;
  counters.allocations = allocations_;
  counters.stream_waits = stream_waits_;
  counters.upload_bytes = upload_bytes_;
  counters.download_bytes = download_bytes_;
  return counters;
}

void Device::ResetCounters() {
  for (auto* counter :
       {&launches_, &graph_launches_, &library_calls_, &uploads_, &downloads_, &copies_, &syncs_,
        &builds_, &allocations_, &stream_waits_, &upload_bytes_, &download_bytes_}) {
    *counter = 0;
  }
}

}  // namespace caffe
