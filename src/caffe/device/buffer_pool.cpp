#include "caffe/device/buffer_pool.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "caffe/core/environment_number.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/host_memory.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/freed_memory.hpp"
#include "caffe/device/graph.hpp"

namespace caffe {
namespace {

// Requests are rounded up so that buffers of nearly equal sizes can be reused for each other.
int64_t RoundUp(int64_t bytes) {
  const int64_t unit = bytes < (1 << 20) ? 256 : bytes < (64 << 20) ? 64 << 10 : 512 << 10;
  return (std::max<int64_t>(bytes, 1) + unit - 1) / unit * unit;
}

// By how much a cached buffer may be larger than the request that gets it. Small for large buffers,
// so that a device holds what was asked for.
int64_t MostWaste(int64_t bytes) { return bytes < (1 << 20) ? bytes / 4 : bytes / 64; }

// The same where a new buffer would have cached ones go back to the driver first.
int64_t MostSpared(int64_t bytes) { return std::min<int64_t>(bytes / 2, 64 << 20); }

// The allocations over which the peak of what was in use is remembered, once or twice.
constexpr int kPeriod = 256;
// Freed buffers of this size are always kept.
constexpr int64_t kLeastCached = 1 << 20;

// CAFFE_FREED_MEMORY in bytes; negative if it is not set.
int64_t LimitOfEnvironment() {
  constexpr int64_t kMost = (int64_t{1} << 40) - 1;
  const auto mebibytes = NumberOfEnvironment("CAFFE_FREED_MEMORY", 0, kMost, "MiB");
  return mebibytes ? *mebibytes << 20 : -1;
}

// The pools of this process. Never destroyed, because devices may outlive static objects.
struct Pools {
  std::mutex mutex;
  std::vector<BufferPool*> all;
};
Pools& AllPools() {
  static Pools* const pools = new Pools;
  return *pools;
}

}  // namespace

BufferPool::BufferPool(Device* device) : device_(device), cache_limit_(LimitOfEnvironment()) {
  const std::lock_guard lock(AllPools().mutex);
  AllPools().all.push_back(this);
}

BufferPool::~BufferPool() {
  const std::lock_guard lock(AllPools().mutex);
  std::erase(AllPools().all, this);
}

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

// The smallest cached buffer of at least `size` and at most `most` bytes. Prefers one that no other
// stream has used.
BufferPool::Cache::iterator BufferPool::FindCached(int64_t size, int64_t most, int index) {
  const auto first = cached_.lower_bound(size), end = cached_.upper_bound(most);
  auto found = first;
  while (found != end && (found->second.buffer.users & ~BitOf(index))) ++found;
  if (found == end) found = first;
  return found == end ? cached_.end() : found;
}

// Takes a cached buffer that is not much too large; null if there is none.
DevicePtr BufferPool::TakeCached(int64_t size, int index) {
  auto found = FindCached(size, size + MostWaste(size), index);
  if (found == cached_.end() && bytes_held_ + size > MostHeld()) {
    found = FindCached(size, size + MostSpared(size), index);
  }
  if (found == cached_.end()) return {};
  auto [handle, buffer, freed] = found->second;
  WaitFor(OthersBefore(&buffer, index, true));
  cached_.erase(found);
  buffer.requested = size;
  used_[handle] = buffer;
  bytes_cached_ -= buffer.bytes;
  bytes_in_use_ += size;
  return {handle, 0};
}

void BufferPool::NoteInUse() {
  if (++period_ > kPeriod) {
    period_ = 0;
    earlier_peak_ = std::exchange(recent_peak_, 0);
  }
  recent_peak_ = std::max(recent_peak_, bytes_in_use_.load());
  if (bytes_in_use_ > bytes_peak_) bytes_peak_ = bytes_in_use_.load();
}

// A quarter more than the peak, so that requests of many sizes in turn find buffers.
int64_t BufferPool::MostHeld() const {
  const int64_t peak = std::max({recent_peak_, earlier_peak_, bytes_in_use_.load()});
  return std::max(peak + peak / 4, peak + kLeastCached);
}

int64_t BufferPool::MostCached() const {
  if (cache_limit_ >= 0) return cache_limit_;
  if (trims_) return std::max(bytes_in_use_.load(), kLeastCached);
  return std::max<int64_t>(MostHeld() - (bytes_held_ - bytes_cached_), 0);
}

// Returns cached buffers to the driver, the longest unused ones first, until they have at most
// `most` bytes. The driver waits for work that still uses them.
void BufferPool::Evict(int64_t most) noexcept {
  if (bytes_cached_ <= most) return;
  std::vector<Cache::iterator> order;
  for (auto i = cached_.begin(); i != cached_.end(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a->second.freed < b->second.freed; });
  for (const auto& one : order) {
    if (bytes_cached_ <= most) return;
    const int64_t bytes = one->second.buffer.bytes;
    device_->DoFree(one->second.handle);
    cached_.erase(one);
    bytes_cached_ -= bytes;
    bytes_held_ -= bytes;
  }
}

DevicePtr BufferPool::Allocate(int64_t bytes, std::string_view purpose) {
  CAFFE_CHECK(bytes >= 0, purpose, ": cannot allocate ", bytes, " bytes");
  const int64_t size = RoundUp(bytes);
  const DeviceInfo& info = device_->info();
  const int index = CurrentIndex();
  const std::lock_guard lock(mutex_);
  trims_ = false;
  DevicePtr pointer = TakeCached(size, index);
  if (!pointer) {
    // First, so that old and new buffers do not exist at the same time.
    if (cache_limit_ < 0) Evict(std::max<int64_t>(MostCached() - size, 0));
    void* handle = device_->DoAllocate(size);
    if (!handle && !cached_.empty()) {
      Evict(0);
      handle = device_->DoAllocate(size);
    }
    if (!handle) {
      throw OutOfMemory(Concat(info.id, " (", info.name, "): out of memory: ", purpose,
                               " asks for ", size, " bytes, ", bytes_in_use_.load(),
                               " are in use of ", info.memory_bytes,
                               "; use a smaller batch or a narrower type"));
    }
    ++device_->allocations_;
    used_[handle] = {size, size, BitOf(index), BitOf(index), index, 0};
    bytes_in_use_ += size;
    bytes_held_ += size;
    pointer = {handle, 0};
  }
  used_[pointer.handle].allocation = ++last_allocation_;
  NoteInUse();
  if (log::Topic("memory")) {
    log::Info(Concat(info.id, ": ", used_[pointer.handle].bytes, " bytes for ", purpose, "; ",
                     bytes_in_use_.load(), " in use, at most ", bytes_peak_.load()));
  }
  return pointer;
}

void BufferPool::Free(DevicePtr pointer) noexcept {
  if (!pointer) return;
  const bool recording = device_->tracks_use() && Capture::Of(device_);
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(pointer.handle);
  if (found == used_.end()) {
    log::Error(Concat(device_->info().id, ": a buffer was freed twice or never allocated"));
    return;
  }
  const Buffer& buffer = found->second;
  bytes_in_use_ -= buffer.requested;
  bytes_cached_ += buffer.bytes;
  cached_.emplace(buffer.bytes, Cached{pointer.handle, buffer, ++frees_});
  used_.erase(found);
  // A driver cannot free memory for a thread that records a graph.
  if (!recording) Evict(MostCached());
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

int64_t BufferPool::ReleaseCache() noexcept {
  const std::lock_guard lock(mutex_);
  const int64_t before = bytes_cached_;
  Evict(0);
  recent_peak_ = earlier_peak_ = bytes_in_use_;
  return before;
}

void BufferPool::TrimCache() noexcept {
  const std::lock_guard lock(mutex_);
  if (cache_limit_ >= 0) return;
  recent_peak_ = earlier_peak_ = bytes_in_use_;
  trims_ = true;
  Evict(MostCached());
}

void BufferPool::SetCacheLimit(int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  cache_limit_ = bytes;
  Evict(MostCached());
}

void BufferPool::FreeEverything() noexcept {
  ReleaseCache();
  const std::lock_guard lock(mutex_);
  for (auto& [handle, buffer] : used_) device_->DoFree(handle);
  used_.clear();
  bytes_in_use_ = bytes_held_ = 0;
}

int64_t FreedBytes(const Device& device) { return BufferPool::Of(device).bytes_cached(); }

void SetMostFreedBytes(Device* device, int64_t bytes) noexcept {
  BufferPool::Of(*device).SetCacheLimit(bytes);
}

void TrimFreedMemory(Device* device) noexcept { BufferPool::Of(*device).TrimCache(); }

int64_t ReleaseMemory() noexcept {
  int64_t bytes = 0;
  {
    const std::lock_guard lock(AllPools().mutex);
    for (BufferPool* pool : AllPools().all) bytes += pool->ReleaseCache();
  }
  ReleaseHostMemory();
  return bytes;
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
  for (auto& [size, cached] : cached_) forget(&cached.buffer);
  streams_[index] = nullptr;
}

}  // namespace caffe
