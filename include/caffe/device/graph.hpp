#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "caffe/device/device_ptr.hpp"
#include "caffe/device/stream.hpp"
#include "caffe/device/work_order.hpp"

namespace caffe {

// The value of CAFFE_GRAPHS: `off`, `branches`, or anything else, which stands for kLinear.
enum class GraphMode {
  kOff,       // nothing is recorded
  kLinear,    // recorded work runs in the order in which it was recorded
  kBranches,  // recorded pieces of work that use different memory may run at the same time
};
GraphMode GraphModeOfEnvironment();

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
//
// With GraphMode::kBranches the graph may run pieces of work at the same time if the memory that
// they use allows it: NoteUse gives the buffers of each piece, and NoteExtent which bytes of a
// buffer belong to a pointer.
class Capture {
 public:
  // Waits until no other thread records for the device. Throws unless Device::can_capture().
  explicit Capture(Device* device, GraphMode mode = GraphMode::kLinear);
  // Abandons the record unless End was called.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  // Whether some of the work recorded so far may run at the same time.
  bool has_branches() const;
  // Whether the order of the work follows from the memory that it uses, whatever streams it is on.
  bool orders_by_memory() const { return order_ != nullptr; }
  // Ends the record. Throws if something could not be recorded.
  std::unique_ptr<Graph> End();

  // The calling thread's record for the device, or null.
  static Capture* Of(const Device* device);
  // Records that the next piece of work uses these buffers.
  void NoteUse(std::span<const DevicePtr> pointers);
  // The bytes of a buffer that may be used through pointers into them, until NextStep. Without such
  // a note, a pointer stands for its whole buffer. Of several notes the largest counts.
  static void NoteExtent(const Device* device, DevicePtr pointer, int64_t bytes) {
    NoteColumns(device, pointer, bytes, 0, 0, 0);
  }
  // The same for an array in rows of `pitch` bytes, of which only [first, last) of each row is
  // used.
  static void NoteColumns(const Device* device, DevicePtr pointer, int64_t bytes, int64_t pitch,
                          int64_t first, int64_t last);
  // Arrays of the next step may lie where others were.
  void NextStep() { extents_.clear(); }
  // Whether the calling thread records for the device, and the device keeps the call of a function
  // that enqueues work instead of making it now.
  static bool Recording(const Device* device);
  static bool Keep(Device* device, const std::function<void()>& call);

 private:
  void Stop() noexcept;
  MemoryUse UseOf(const DevicePtr& pointer) const;

  Device* device_;
  std::unique_ptr<StreamScope> scope_;
  std::vector<DevicePtr> used_;        // one pointer for each buffer
  std::vector<uint64_t> allocations_;  // of these buffers
  std::unique_ptr<WorkOrder> order_;   // null: the graph has no branches
  std::vector<MemoryUse> extents_;
  bool ended_ = false;
};

}  // namespace caffe
