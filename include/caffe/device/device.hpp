#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "caffe/device/backend.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/device/graph.hpp"
#include "caffe/device/program.hpp"
#include "caffe/device/stream.hpp"

namespace caffe {

struct DeviceInfo {
  std::string backend = "null";  // "cpu", "cuda", "opencl", "null"
  Dialect dialect{};
  std::string id;  // "cpu", "cuda:0", "opencl:1", "null"
  // A second name, which other drivers do not change: "opencl:pocl:0", the first device of this
  // platform. Empty for devices whose `id` is such a name.
  std::string stable_id;
  std::string name;  // the vendor's name
  std::string vendor, platform, driver, architecture, compiler;
  bool is_cpu_type = false;  // runs on the processor (the CPU device, PoCL)
  bool is_gpu = false;       // neither a processor nor an accelerator, such as an FPGA
  int64_t memory_bytes = 0;
  int64_t local_memory_bytes = 0;
  int64_t max_group_size = 256;
  int compute_units = 1;
  bool native_half = false, dp4a = false, matrix = false, subgroups = false;
  bool matrix_groups = false;    // matrix units multiply for four subgroups at a time
  bool host_accessible = false;  // the host can read and write through pointers of the device
  bool unified_memory = false, fp64 = false;
  // Whether quotients and square roots of floats are correctly rounded, and whether floats below
  // 2^-126 are kept. Results of a device without one of them are within tolerance of the CPU's.
  bool rounds_division = true, denormals = true;
  std::string instruction_level;  // CPU: v2, v3, v4, neon
  std::string unique_id;  // identifies the physical GPU, so that `all` uses each once; may be empty
  // The elements that a work item of a SPAN_KERNEL computes.
  int64_t span() const { return is_cpu_type ? 1 : 8; }
  // The items of a group in kernels that take any power of two (GROUP in their text).
  int64_t group_items() const {
    return max_group_size < 256 ? std::bit_floor(static_cast<uint64_t>(max_group_size)) : 256;
  }
  // Whether kernels of work groups run: LOCAL memory and BARRIER. Otherwise a work item computes
  // more.
  bool has_groups() const { return dialect.text != nullptr; }
  // Whether a program for each shape pays: on processors it takes longer to compile than constants
  // save.
  bool folds_shapes() const { return !is_cpu_type; }
};

// Counts of a device's operations since the last reset. Tests assert them.
struct DeviceCounters {
  // `launches` includes `graph_launches`, but not the work that a graph runs.
  int64_t launches = 0, graph_launches = 0, library_calls = 0, uploads = 0, downloads = 0,
          copies = 0, syncs = 0;
  int64_t builds = 0, allocations = 0, stream_waits = 0;
  int64_t upload_bytes = 0, download_bytes = 0;
};

class BufferPool;

// One device: its memory, its streams and its compiler. Thread-safe. A thread enqueues its work on
// the stream of its innermost StreamScope; threads without a scope share the default stream. Every
// failure is an exception that names the device and the call.
class Device {
 public:
  virtual ~Device();
  const DeviceInfo& info() const { return info_; }
  const std::string& backend() const { return info_.backend; }
  bool has_groups() const { return info_.has_groups(); }

  // Allocates `bytes` of device memory from a caching allocator, aligned to 256 bytes, with
  // undefined content. If there is not enough, throws and names `purpose`, the size, and the memory
  // in use. Freed memory is reused at once, in stream order: a stream that gets a buffer which
  // other streams have used waits for these streams on the device.
  DevicePtr Allocate(int64_t bytes, std::string_view purpose);
  void Free(DevicePtr pointer) noexcept;
  // Returns cached, unused memory to the system.
  void ReleaseCache() noexcept;
  int64_t bytes_in_use() const;
  int64_t bytes_peak() const;
  void ResetPeak();

  // Enqueued on the calling thread's stream. Upload returns when `source` may be reused; the copy
  // may happen later. Download waits on the host until the copy is done, which counts as one sync.
  // A read-only target is an error.
  void Upload(DevicePtr target, const void* source, int64_t bytes);
  void Download(void* target, DevicePtr source, int64_t bytes);
  void Copy(DevicePtr target, DevicePtr source, int64_t bytes);
  void Fill(DevicePtr target, uint8_t byte, int64_t bytes);
  // Waits on the host until all work on the calling thread's stream is done. It does not wait for
  // other streams; Stream::Synchronize waits for a given one.
  void Synchronize();

  // Creates a stream in addition to the default one; at most kMostStreams may exist at a time.
  std::unique_ptr<Stream> CreateStream();
  static constexpr int kMostStreams = 63;
  virtual Stream* default_stream() = 0;
  // The calling thread's stream: that of its innermost StreamScope for this device, otherwise the
  // default stream.
  Stream* current_stream();
  // The same as current_stream()->Record(timed).
  std::unique_ptr<Event> RecordEvent(bool timed = true);
  // The native handle of the calling thread's stream: cudaStream_t, cl_command_queue; null
  // elsewhere. On CUDA, the device's context is current on the calling thread afterwards.
  virtual void* native_stream() { return current_stream()->native(); }
  // Call this before work that uses `pointers` is enqueued on the current stream other than through
  // Kernel and the functions above, for example by a vendor's library: the stream waits for the
  // work of other streams on these buffers. Read-only pointers count as read, the others as
  // written. One call for each piece of work, with all of its pointers: in a graph, pieces without
  // common buffers may run at the same time.
  void NoteUse(std::initializer_list<DevicePtr> pointers) {
    NoteUse(std::span(pointers.begin(), pointers.size()));
  }
  void NoteUse(std::span<const DevicePtr> pointers) {
    if (tracks_use()) OrderUse(pointers);
  }
  // Whether NoteUse has an effect: there are several streams, or a thread records.
  bool tracks_use() const { return tracks_use_.load(std::memory_order_relaxed) > 0; }
  // False until the first CreateStream: all work then runs in one order.
  bool has_streams() const { return has_streams_.load(std::memory_order_relaxed); }

  // Whether a Capture can record the work of a thread.
  virtual bool can_capture() const { return false; }

  // Compiles the text or takes it from the program cache. With `use_cache` false it always
  // compiles.
  std::shared_ptr<Program> Build(const ProgramText& text, bool use_cache = true);

  // Counters: a snapshot, and a reset.
  DeviceCounters counters() const;
  void ResetCounters();
  void CountLaunch() { ++launches_; }
  void CountGraphLaunch() { ++graph_launches_; }
  void CountLibraryCall() { ++library_calls_; }
  void CountBuild() { ++builds_; }

  bool host_accessible() const { return info_.host_accessible; }

 protected:
  explicit Device(DeviceInfo info);
  virtual void* DoAllocate(int64_t bytes) = 0;  // null if there is not enough memory
  virtual void DoFree(void* handle) noexcept = 0;
  virtual void DoUpload(DevicePtr target, const void* source, int64_t bytes) = 0;
  virtual void DoDownload(void* target, DevicePtr source, int64_t bytes) = 0;
  virtual void DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) = 0;
  virtual void DoFill(DevicePtr target, uint8_t byte, int64_t bytes) = 0;
  virtual void DoSynchronize() { current_stream()->Synchronize(); }
  virtual std::unique_ptr<Stream> DoCreateStream() = 0;
  // Returns the program from the cache or the compiler. Implementations that compile call
  // CountBuild().
  virtual std::shared_ptr<Program> DoBuild(const ProgramText& text, bool use_cache) = 0;
  // Makes a stream of its own record, which no other thread uses. Called by one thread at a time.
  virtual Stream* DoBeginCapture();
  // Stops recording; null if `keep` is false.
  virtual std::unique_ptr<Graph> DoEndCapture(bool keep);
  // For devices whose stream of a record does not record by itself: takes a call that would enqueue
  // work, for Graph::DoLaunch to make it. Returns false if the caller is to make the call now.
  virtual bool DoKeep(const std::function<void()>& call) { return false; }
  // The work that is recorded next may run as soon as these pieces of the record have run; piece n
  // is what was recorded after the call n, from 0. False if graphs of the device have no branches.
  virtual bool DoOrderAfter(std::span<const int> pieces) { return false; }
  // Derived destructors call this first, while DoFree still works.
  void FreeEverything() noexcept;

  DeviceInfo info_;

 private:
  friend class BufferPool;
  friend class Capture;
  friend class Event;
  friend class Graph;
  friend class Stream;
  Stream* BeginCapture();
  std::unique_ptr<Graph> EndCapture();
  void AbandonCapture() noexcept;
  // How many buffers were freed, and the numbers of the allocations to which pointers belong.
  uint64_t frees() const;
  std::vector<uint64_t> Allocations(std::span<const DevicePtr> pointers) const;
  // Throws if the calling thread records.
  void CheckNotRecording(const char* call) const;
  void OrderUse(std::span<const DevicePtr> pointers);
  void CheckWritable(DevicePtr target, const char* call) const;

  // Shared with events and streams, which may outlive the device; the destructor sets it to null.
  const std::shared_ptr<Device*> self_ = std::make_shared<Device*>(this);
  std::atomic<bool> has_streams_{false};
  std::atomic<int> tracks_use_{0};  // captures, and 1 if there are several streams
  std::mutex capture_mutex_;        // locked during a capture
  std::unique_ptr<BufferPool> buffers_;
  std::mutex program_mutex_;
  std::unordered_map<std::string, std::weak_ptr<Program>> programs_;
  std::atomic<int64_t> launches_{0}, graph_launches_{0}, library_calls_{0}, uploads_{0},
      downloads_{0}, copies_{0}, syncs_{0}, builds_{0}, allocations_{0}, stream_waits_{0},
      upload_bytes_{0}, download_bytes_{0};
};

BackendDevices FindCpu();
BackendDevices FindCudaDevices();
BackendDevices FindOpenClDevices();
BackendDevices FindNull();

}  // namespace caffe
