#include "caffe/device/device.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/out_of_memory.hpp"

namespace caffe {
namespace {

// Requests are rounded up so that buffers of nearly equal sizes can take each other's place.
int64_t RoundUp(int64_t bytes) {
  const int64_t step = bytes < (1 << 20) ? 256 : bytes < (64 << 20) ? 64 << 10 : 2 << 20;
  return (std::max<int64_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace

const char* BackendName(Backend backend) {
  switch (backend) {
    case Backend::kCpu: return "cpu";
    case Backend::kOpenCl: return "opencl";
    case Backend::kCuda: return "cuda";
    case Backend::kNull: break;
  }
  return "null";
}

Device::~Device() = default;

DevicePtr Device::Allocate(int64_t bytes, std::string_view purpose) {
  CAFFE_CHECK(bytes >= 0, purpose, ": can not allocate ", bytes, " bytes");
  const int64_t size = RoundUp(bytes);
  const std::lock_guard lock(memory_mutex_);
  void* handle = nullptr;
  // A cached buffer is taken if at most a quarter of it is wasted.
  const auto found = cached_.lower_bound(size);
  if (found != cached_.end() && found->first <= size + size / 4) {
    handle = found->second;
    sizes_[handle] = found->first;
    bytes_in_use_ += found->first;
    cached_.erase(found);
  } else {
    handle = DoAllocate(size);
    if (!handle && !cached_.empty()) {
      for (auto& [cached_size, cached_handle] : cached_) DoFree(cached_handle);
      cached_.clear();
      handle = DoAllocate(size);
    }
    if (!handle) {
      throw OutOfMemory(Concat(info_.id, " (", info_.name, "): out of memory: ", purpose,
                               " asks for ", size, " bytes, ", bytes_in_use_.load(),
                               " are in use of ", info_.memory_bytes,
                               "; use a smaller batch or a narrower type"));
    }
    ++allocations_;
    sizes_[handle] = size;
    bytes_in_use_ += size;
  }
  if (bytes_in_use_ > bytes_peak_) bytes_peak_ = bytes_in_use_.load();
  if (log::Topic("memory")) {
    log::Info(Concat(info_.id, ": ", sizes_[handle], " bytes for ", purpose, "; ",
                     bytes_in_use_.load(), " in use, at most ", bytes_peak_.load()));
  }
  return {handle, 0};
}

void Device::Free(DevicePtr pointer) noexcept {
  if (!pointer) return;
  const std::lock_guard lock(memory_mutex_);
  const auto found = sizes_.find(pointer.handle);
  if (found == sizes_.end()) {
    log::Error(Concat(info_.id, ": a buffer was freed twice or never allocated"));
    return;
  }
  bytes_in_use_ -= found->second;
  cached_.emplace(found->second, pointer.handle);
  sizes_.erase(found);
}

void Device::ReleaseCache() noexcept {
  const std::lock_guard lock(memory_mutex_);
  for (auto& [size, handle] : cached_) DoFree(handle);
  cached_.clear();
}

void Device::FreeEverything() noexcept {
  ReleaseCache();
  const std::lock_guard lock(memory_mutex_);
  for (auto& [handle, size] : sizes_) DoFree(handle);
  sizes_.clear();
  bytes_in_use_ = 0;
}

void Device::Upload(DevicePtr target, const void* source, int64_t bytes) {
  if (bytes == 0) return;
  DoUpload(target, source, bytes);
  ++uploads_;
  upload_bytes_ += bytes;
}

void Device::Download(void* target, DevicePtr source, int64_t bytes) {
  if (bytes == 0) return;
  DoDownload(target, source, bytes);
  ++downloads_;
  ++syncs_;
  download_bytes_ += bytes;
}

void Device::Copy(DevicePtr target, DevicePtr source, int64_t bytes) {
  if (bytes == 0 || target == source) return;
  DoCopy(target, source, bytes);
  ++copies_;
}

void Device::Fill(DevicePtr target, uint8_t byte, int64_t bytes) {
  if (bytes == 0) return;
  DoFill(target, byte, bytes);
}

void Device::Synchronize() {
  DoSynchronize();
  ++syncs_;
}

std::shared_ptr<Program> Device::Build(const ProgramText& text, bool use_cache) {
  if (!use_cache) return DoBuild(text, false);
  // The CPU's programs have no text: name and types tell them apart.
  std::string key = text.types.name() + "\n" + text.options + "\n" + text.source;
  if (text.source.empty()) {
    for (const KernelSignature& kernel : text.kernels) key += kernel.name + "\n";
  }
  const std::lock_guard lock(program_mutex_);
  std::weak_ptr<Program>& slot = programs_[key];
  std::shared_ptr<Program> program = slot.lock();
  if (!program) {
    program = DoBuild(text, true);
    slot = program;
  }
  return program;
}

DeviceCounters Device::counters() const {
  DeviceCounters counters;
  counters.launches = launches_;
  counters.library_calls = library_calls_;
  counters.uploads = uploads_;
  counters.downloads = downloads_;
  counters.copies = copies_;
  counters.syncs = syncs_;
  counters.builds = builds_;
  counters.allocations = allocations_;
  counters.upload_bytes = upload_bytes_;
  counters.download_bytes = download_bytes_;
  return counters;
}

void Device::ResetCounters() {
  for (auto* counter : {&launches_, &library_calls_, &uploads_, &downloads_, &copies_, &syncs_,
                        &builds_, &allocations_, &upload_bytes_, &download_bytes_}) {
    *counter = 0;
  }
}

}  // namespace caffe
