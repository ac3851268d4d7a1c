#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "caffe/device/device_ptr.hpp"
#include "caffe/device/program.hpp"
#include "caffe/device/stream.hpp"

namespace caffe {

enum class Backend { kCpu, kOpenCl, kCuda, kNull };
const char* BackendName(Backend backend);  // cpu, opencl, cuda, null

struct DeviceInfo {
  Backend backend = Backend::kNull;
  std::string id;    // "cpu", "cuda:0", "opencl:1", "null"
  std::string name;  // the maker's name of it
  std::string vendor, platform, driver, architecture, compiler;
  bool is_cpu_type = false;  // runs on the processor (the CPU device, PoCL)
  int64_t memory_bytes = 0;
  int64_t local_memory_bytes = 0;
  int64_t max_group_size = 256;
  int compute_units = 1;
  bool native_half = false, dp4a = false, matrix = false, subgroups = false;
  bool unified_memory = false, fp64 = false;
  std::string instruction_level;  // CPU: v2, v3, v4, neon
  std::string unique_id;          // the physical GPU, so that `all` takes each once; may be empty
};

// What a device did since the last reset. Tests assert these.
struct DeviceCounters {
  int64_t launches = 0, library_calls = 0, uploads = 0, downloads = 0, copies = 0, syncs = 0;
  int64_t builds = 0, allocations = 0, stream_waits = 0;
  int64_t upload_bytes = 0, download_bytes = 0;
};

class BufferPool;

// One device: its memory, its streams and its compiler. Thread-safe. What a thread enqueues goes to
// the stream of its innermost StreamScope, without one to the default stream, which all such
// threads share. Every failure is an exception with the name of the device and of the call.
class Device {
 public:
  virtual ~Device();
  const DeviceInfo& info() const { return info_; }
  Backend backend() const { return info_.backend; }

  // `bytes` of device memory from a caching allocator, aligned to 256 bytes, content undefined.
  // Throws if there is not enough, naming `purpose`, the request, and what is in use. Freed memory
  // is given out again at once, in stream order: a stream that takes a buffer which other streams
  // have used waits for these, on the device.
  DevicePtr Allocate(int64_t bytes, std::string_view purpose);
  void Free(DevicePtr pointer) noexcept;
  // Gives cached, unused memory back to the system.
  void ReleaseCache() noexcept;
  int64_t bytes_in_use() const;
  int64_t bytes_peak() const;
  void ResetPeak();

  // In the order of the calling thread's stream. Upload returns when `source` may be reused, not
  // when the copy has happened. Download waits on the host until the copy is done: one sync.
  // A read-only target is an error.
  void Upload(DevicePtr target, const void* source, int64_t bytes);
  void Download(void* target, DevicePtr source, int64_t bytes);
  void Copy(DevicePtr target, DevicePtr source, int64_t bytes);
  void Fill(DevicePtr target, uint8_t byte, int64_t bytes);
  // Waits on the host until everything on the calling thread's stream is done. Streams of other
  // threads go on; Stream::Synchronize waits for one of them.
  void Synchronize();

  // A stream besides the default one; at most kMostStreams at a time.
  std::unique_ptr<Stream> CreateStream();
  static constexpr int kMostStreams = 63;
  virtual Stream* default_stream() = 0;
  // The calling thread's stream: that of its innermost StreamScope for this device, or the default.
  Stream* current_stream();
  // current_stream()->Record(timed).
  std::unique_ptr<Event> RecordEvent(bool timed = true);
  // The native handle of the calling thread's stream: cudaStream_t, cl_command_queue; null
  // elsewhere. On CUDA, the device's context is current on the calling thread afterwards.
  virtual void* native_stream() { return current_stream()->native(); }
  // To be called before `pointers` are used on the current stream by other means than Kernel and
  // the calls above, as by a vendor's library: the stream waits for work of other streams on these
  // buffers. Read-only pointers are read, the others are written.
  void NoteUse(std::initializer_list<DevicePtr> pointers) {
    NoteUse(std::span(pointers.begin(), pointers.size()));
  }
  void NoteUse(std::span<const DevicePtr> pointers) {
    if (has_streams()) OrderUse(pointers);
  }
  // False as long as CreateStream was never called: all work is in one order.
  bool has_streams() const { return has_streams_.load(std::memory_order_relaxed); }

  // Compiles, or takes from the program cache. `use_cache` false compiles afresh.
  std::shared_ptr<Program> Build(const ProgramText& text, bool use_cache = true);

  // A snapshot, and the start of a new count.
  DeviceCounters counters() const;
  void ResetCounters();
  void CountLaunch() { ++launches_; }
  void CountLibraryCall() { ++library_calls_; }
  void CountBuild() { ++builds_; }

  // True if a pointer of the device can be read and written by the host (the CPU device).
  bool host_accessible() const { return info_.backend == Backend::kCpu; }

 protected:
  explicit Device(DeviceInfo info);
  virtual void* DoAllocate(int64_t bytes) = 0;  // null if there is not enough
  virtual void DoFree(void* handle) noexcept = 0;
  virtual void DoUpload(DevicePtr target, const void* source, int64_t bytes) = 0;
  virtual void DoDownload(void* target, DevicePtr source, int64_t bytes) = 0;
  virtual void DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) = 0;
  virtual void DoFill(DevicePtr target, uint8_t byte, int64_t bytes) = 0;
  virtual void DoSynchronize() { current_stream()->Synchronize(); }
  virtual std::unique_ptr<Stream> DoCreateStream() = 0;
  // The program from the cache or the compiler. Implementations that compile call CountBuild().
  virtual std::shared_ptr<Program> DoBuild(const ProgramText& text, bool use_cache) = 0;
  // Derived destructors call this first, while DoFree still works.
  void FreeEverything() noexcept;

  DeviceInfo info_;

 private:
  friend class BufferPool;
  friend class Event;
  friend class Stream;
  void OrderUse(std::span<const DevicePtr> pointers);
  void CheckWritable(DevicePtr target, const char* call) const;

  // Events and streams may outlive the device; it is null from then on.
  const std::shared_ptr<Device*> self_ = std::make_shared<Device*>(this);
  std::atomic<bool> has_streams_{false};
  std::unique_ptr<BufferPool> buffers_;
  std::mutex program_mutex_;
  std::unordered_map<std::string, std::weak_ptr<Program>> programs_;
  std::atomic<int64_t> launches_{0}, library_calls_{0}, uploads_{0}, downloads_{0}, copies_{0},
      syncs_{0}, builds_{0}, allocations_{0}, stream_waits_{0}, upload_bytes_{0},
      download_bytes_{0};
};

// One backend. Each returns no devices, and says why, where its driver or library is missing.
struct BackendDevices {
  std::vector<std::unique_ptr<Device>> devices;
  std::string note;  // "no libcuda.so.1", …
};
BackendDevices FindCudaDevices();
BackendDevices FindOpenClDevices();
std::unique_ptr<Device> MakeCpuDevice();
std::unique_ptr<Device> MakeNullDevice();

}  // namespace caffe
