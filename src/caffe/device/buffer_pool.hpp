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
// requests. Thread-safe.
class BufferPool {
 public:
  explicit BufferPool(Device* device) : device_(device) {}
  DevicePtr Allocate(int64_t bytes, std::string_view purpose);
  void Free(DevicePtr pointer) noexcept;
  // Returns freed buffers to the driver.
  void ReleaseCache() noexcept;
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
    int64_t bytes = 0;
    Streams users = 0;   // streams that used it since the last write, including the writer
    Streams behind = 0;  // streams whose next work starts after the last write
    int writer = 0;      // index of the stream that wrote last; -1 if that write is done
    uint64_t allocation = 0;
  };

  int CurrentIndex() const;
  Streams OthersBefore(Buffer* buffer, int index, bool write);
  void WaitFor(Streams others);
  DevicePtr TakeCached(int64_t size, int index);

  Device* const device_;
  std::mutex mutex_;
  std::unordered_map<void*, Buffer> used_;
  std::multimap<int64_t, std::pair<void*, Buffer>> cached_;  // by size
  std::array<Stream*, Device::kMostStreams + 1> streams_{};
  std::atomic<int64_t> bytes_in_use_{0}, bytes_peak_{0};
  uint64_t last_allocation_ = 0;
  std::atomic<uint64_t> frees_{0};
};

}  // namespace caffe
