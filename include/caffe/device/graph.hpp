#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "caffe/device/device_ptr.hpp"
#include "caffe/device/stream.hpp"

namespace caffe {

// Work that a Capture recorded. It runs as often as needed, each time with the same kernels,
// arguments and buffers. Used by one thread at a time; must not outlive its device.
class Graph {
 public:
  virtual ~Graph() = default;
  // Enqueues all of the work on the calling thread's stream: one launch. Throws unless valid().
  void Launch();
  // False after one of the buffers that the work uses was freed.
  bool valid();

 protected:
  virtual void DoLaunch() = 0;

 private:
  friend class Capture;
  Device* device_ = nullptr;
  std::vector<DevicePtr> used_;        // one pointer for each buffer
  std::vector<uint64_t> allocations_;  // of these buffers
  uint64_t frees_ = ~uint64_t{0};      // of the device, when the buffers were last looked up
  bool valid_ = true;
};

// During the lifetime of this object the work that the calling thread enqueues for the device is
// recorded and does not run. Uploads, downloads, allocations, waits and timed events cannot be
// recorded: they throw, and then the record must be abandoned. Other threads are not affected.
class Capture {
 public:
  // Waits until no other thread records for the device. Throws unless Device::can_capture().
  explicit Capture(Device* device);
  // Abandons the record unless End was called.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  // Ends the record. Throws if something could not be recorded.
  std::unique_ptr<Graph> End();

  // The calling thread's record for the device, or null.
  static Capture* Of(const Device* device);
  // Records that the work uses these buffers.
  void NoteUse(std::span<const DevicePtr> pointers);
  // Whether the calling thread records for the device, and the device keeps the call of a function
  // that enqueues work instead of making it now.
  static bool Recording(const Device* device);
  static bool Keep(Device* device, const std::function<void()>& call);

 private:
  void Stop() noexcept;

  Device* device_;
  std::unique_ptr<StreamScope> scope_;
  std::vector<DevicePtr> used_;        // one pointer for each buffer
  std::vector<uint64_t> allocations_;  // of these buffers
  bool ended_ = false;
};

}  // namespace caffe
