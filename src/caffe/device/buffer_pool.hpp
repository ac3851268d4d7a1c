#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "caffe/device/device.hpp"

namespace caffe {

// The buffers of one device and the streams that use them. Freed buffers are kept for later
// requests, as long as all buffers together are hardly larger than those that were in use at the
// same time not long ago; the others go back to the driver, the ones that were freed first before
// later ones. Thread-safe.
class BufferPool {
 public:
  explicit BufferPool(Device* device);
  ~BufferPool();
  static BufferPool& Of(const Device& device) { return *device.buffers_; }
  DevicePtr Allocate(int64_t bytes, std::string_view purpose);
  void Free(DevicePtr pointer) noexcept;
  // Returns freed buffers to the driver. Returns their size.
  int64_t ReleaseCache() noexcept;
  // Returns freed buffers to the driver until they are no larger than those in use.
  void TrimCache() noexcept;
  // At most how many bytes of freed buffers are kept; negative: as the class comment says.
  void SetCacheLimit(int64_t bytes) noexcept;
  int64_t bytes_cached() const { return bytes_cached_; }
  // Returns all buffers to the driver, including those that were not freed.
  void FreeEverything() noexcept;

  // Registers a new stream and sets its index; throws if there are too many.
  void Add(Stream* stream);
  // Removes a stream whose work is done.
  void Retire(const Stream* stream) noexcept;
  // Makes the current stream wait for the work of other streams on which its next use of these
  // buffers depends. Read-only pointers count as read, the others as written.
  void OrderUse(std::span<const DevicePtr> pointers);

  // The numbers of the allocations of these buffers; 0 for buffers that do not exist.
  std::vector<uint64_t> Allocations(std::span<const DevicePtr> pointers);
  uint64_t frees() const { return frees_; }

  int64_t bytes_in_use() const { return bytes_in_use_; }
  int64_t bytes_peak() const { return bytes_peak_; }
  void ResetPeak() { bytes_peak_ = bytes_in_use_.load(); }

 private:
  // A set of streams: bit i is the stream of index i.
  using Streams = uint64_t;
  static Streams BitOf(int index) { return Streams{1} << index; }

  struct Buffer {
    int64_t bytes = 0;      // its size
    int64_t requested = 0;  // what it is used for now, rounded up
    Streams users = 0;      // streams that used it since the last write, including the writer
    Streams behind = 0;     // streams whose next work starts after the last write
    int writer = 0;         // index of the stream that wrote last; -1 if that write is done
    uint64_t allocation = 0;
  };
  struct Cached {
    void* handle;
    Buffer buffer;
    uint64_t freed;  // the number of its Free
  };
  using Cache = std::multimap<int64_t, Cached>;  // by size

  int CurrentIndex() const;
  Streams OthersBefore(Buffer* buffer, int index, bool write);
  void WaitFor(Streams others);
  Cache::iterator FindCached(int64_t size, int64_t most, int index);
  DevicePtr TakeCached(int64_t size, int index);
  void NoteInUse();
  int64_t MostHeld() const;
  int64_t MostCached() const;
  void Evict(int64_t most) noexcept;

  Device* const device_;
  std::mutex mutex_;
  std::unordered_map<void*, Buffer> used_;
  Cache cached_;
  std::array<Stream*, Device::kMostStreams + 1> streams_{};
  // In use: as requested; the buffers that hold it are at most bytes_held_ - bytes_cached_ large.
  std::atomic<int64_t> bytes_in_use_{0}, bytes_peak_{0}, bytes_cached_{0};
  int64_t bytes_held_ = 0;    // of all buffers
  int64_t cache_limit_ = -1;  // negative: from the two peaks
  // The largest bytes_in_use_ of the current period of kPeriod allocations, and of the one before.
  int64_t recent_peak_ = 0, earlier_peak_ = 0;
  int period_ = 0;  // allocations of the current period
  // After TrimCache, until the next allocation: what still holds memory of a net, such as blobs of
  // a script, is destroyed after it.
  bool trims_ = false;
  uint64_t last_allocation_ = 0;
  std::atomic<uint64_t> frees_{0};
};

}  // namespace caffe
