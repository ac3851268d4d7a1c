#include "caffe/device/buffer_pool.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/out_of_memory.hpp"

namespace caffe {
namespace {

// Requests are rounded up so that buffers of nearly equal sizes can be reused for each other.
int64_t RoundUp(int64_t bytes) {
  const int64_t unit = bytes < (1 << 20) ? 256 : bytes < (64 << 20) ? 64 << 10 : 512 << 10;
  return (std::max<int64_t>(bytes, 1) + unit - 1) / unit * unit;
}

// By how much a cached buffer may be larger than the request that gets it. Small for large buffers, so
// that a device holds what was asked for.
int64_t MostWaste(int64_t bytes) { return bytes < (1 << 20) ? bytes / 4 : bytes / 64; }

}  // namespace

// If there is only the default stream, this does not ask for it: the device may not be open yet.
int BufferPool::CurrentIndex() const {
  return device_->has_streams() ? device_->current_stream()->index() : 0;
}

// Records that the stream of this index uses the buffer. Returns the streams that it must wait for.
BufferPool::Streams BufferPool::OthersBefore(Buffer* buffer, int index, bool write) {
  const Streams own = BitOf(index);
  Streams others = 0;
  if (write) {
    others = buffer->users & ~own;
    buffer->users = buffer->behind = own;
    buffer->writer = index;
  } else {
    if (!(buffer->behind & own) && buffer->writer >= 0) others = BitOf(buffer->writer);
    buffer->users |= own;
    buffer->behind |= own;
  }
  return others;
}

// Events are recorded here, not at each use, so that uses without a wait cost nothing.
void BufferPool::WaitFor(Streams others) {
  if (others == 0) return;
  Stream* const current = device_->current_stream();
  for (; others != 0; others &= others - 1) {
    const int index = std::countr_zero(others);
    Stream* const other = index == 0 ? device_->default_stream() : streams_[index];
    if (other != nullptr) current->WaitFor(*other->Record(false));
  }
}

void BufferPool::OrderUse(std::span<const DevicePtr> pointers) {
  const int index = CurrentIndex();
  const std::lock_guard lock(mutex_);
  Streams others = 0;
  for (const DevicePtr& pointer : pointers) {
    const auto found = used_.find(pointer.handle);
    if (found != used_.end()) others |= OthersBefore(&found->second, index, !pointer.read_only);
  }
  WaitFor(others);
}

// Takes a cached buffer that is not much too large; null if there is none. Prefers a buffer that no
// other stream has used.
DevicePtr BufferPool::TakeCached(int64_t size, int index) {
  const auto first = cached_.lower_bound(size);
  const auto end = cached_.upper_bound(size + MostWaste(size));
  auto found = first;
  while (found != end && (found->second.second.users & ~BitOf(index))) ++found;
  if (found == end) found = first;
  if (found == end) return {};
  auto [handle, buffer] = found->second;
  WaitFor(OthersBefore(&buffer, index, true));
  cached_.erase(found);
  used_[handle] = buffer;
  bytes_in_use_ += buffer.bytes;
  return {handle, 0};
}

DevicePtr BufferPool::Allocate(int64_t bytes, std::string_view purpose) {
  CAFFE_CHECK(bytes >= 0, purpose, ": cannot allocate ", bytes, " bytes");
  const int64_t size = RoundUp(bytes);
  const DeviceInfo& info = device_->info();
  const int index = CurrentIndex();
  const std::lock_guard lock(mutex_);
  DevicePtr pointer = TakeCached(size, index);
  if (!pointer) {
    void* handle = device_->DoAllocate(size);
    if (!handle && !cached_.empty()) {
      for (auto& [cached_size, cached] : cached_) device_->DoFree(cached.first);
      cached_.clear();
      handle = device_->DoAllocate(size);
    }
    if (!handle) {
      throw OutOfMemory(Concat(info.id, " (", info.name, "): out of memory: ", purpose,
                               " asks for ", size, " bytes, ", bytes_in_use_.load(),
                               " are in use of ", info.memory_bytes,
                               "; use a smaller batch or a narrower type"));
    }
    ++device_->allocations_;
    used_[handle] = {size, BitOf(index), BitOf(index), index, 0};
    bytes_in_use_ += size;
    pointer = {handle, 0};
  }
  used_[pointer.handle].allocation = ++last_allocation_;
  if (bytes_in_use_ > bytes_peak_) bytes_peak_ = bytes_in_use_.load();
  if (log::Topic("memory")) {
    log::Info(Concat(info.id, ": ", used_[pointer.handle].bytes, " bytes for ", purpose, "; ",
                     bytes_in_use_.load(), " in use, at most ", bytes_peak_.load()));
  }
  return pointer;
}

void BufferPool::Free(DevicePtr pointer) noexcept {
  if (!pointer) return;
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(pointer.handle);
  if (found == used_.end()) {
    log::Error(Concat(device_->info().id, ": a buffer was freed twice or never allocated"));
    return;
  }
  const Buffer& buffer = found->second;
  bytes_in_use_ -= buffer.bytes;
  cached_.emplace(buffer.bytes, std::pair(pointer.handle, buffer));
  used_.erase(found);
  ++frees_;
}

std::vector<uint64_t> BufferPool::Allocations(std::span<const DevicePtr> pointers) {
  std::vector<uint64_t> numbers;
  const std::lock_guard lock(mutex_);
  for (const DevicePtr& pointer : pointers) {
    const auto found = used_.find(pointer.handle);
    numbers.push_back(found == used_.end() ? 0 : found->second.allocation);
  }
  return numbers;
}

void BufferPool::ReleaseCache() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [size, cached] : cached_) device_->DoFree(cached.first);
  cached_.clear();
}

void BufferPool::FreeEverything() noexcept {
  ReleaseCache();
  const std::lock_guard lock(mutex_);
  for (auto& [handle, buffer] : used_) device_->DoFree(handle);
  used_.clear();
  bytes_in_use_ = 0;
}

void BufferPool::Add(Stream* stream) {
  const std::lock_guard lock(mutex_);
  const auto free = std::find(streams_.begin() + 1, streams_.end(), nullptr);
  CAFFE_CHECK(free != streams_.end(), device_->info().id, ": there are ", Device::kMostStreams,
              " streams already; use them again, or destroy one first");
  *free = stream;
  stream->index_ = static_cast<int>(free - streams_.begin());
}

void BufferPool::Retire(const Stream* stream) noexcept {
  const int index = stream->index_;
  if (index == 0) return;  // the default stream, or a stream of the CPU
  const std::lock_guard lock(mutex_);
  const auto forget = [index](Buffer* buffer) {
    buffer->users &= ~BitOf(index);
    buffer->behind &= ~BitOf(index);
    if (buffer->writer == index) buffer->writer = -1;
  };
  for (auto& [handle, buffer] : used_) forget(&buffer);
  for (auto& [size, cached] : cached_) forget(&cached.second);
  streams_[index] = nullptr;
}

}  // namespace caffe
