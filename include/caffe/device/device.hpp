#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "caffe/device/device_ptr.hpp"
#include "caffe/device/program.hpp"

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
  int64_t builds = 0, allocations = 0;
  int64_t upload_bytes = 0, download_bytes = 0;
};

// A point in a device's queue.
class Event {
 public:
  virtual ~Event() = default;
  virtual void Wait() = 0;
  // Seconds from `start` to this event; waits for both.
  virtual double SecondsSince(Event& start) = 0;
};

// An in-order queue of its own.
class Stream {
 public:
  virtual ~Stream() = default;
};

// One device: its memory, its queue and its compiler. Thread-safe but for streams: every thread
// that uses a device shares its default stream. Every failure is an exception with the name of the
// device and of the call.
class Device {
 public:
  virtual ~Device();
  const DeviceInfo& info() const { return info_; }
  Backend backend() const { return info_.backend; }

  // `bytes` of device memory from a caching allocator, aligned to 256 bytes, content undefined.
  // Throws if there is not enough, naming `purpose`, the request, and what is in use.
  DevicePtr Allocate(int64_t bytes, std::string_view purpose);
  void Free(DevicePtr pointer) noexcept;
  // Gives cached, unused memory back to the system.
  void ReleaseCache() noexcept;
  int64_t bytes_in_use() const { return bytes_in_use_; }
  int64_t bytes_peak() const { return bytes_peak_; }
  void ResetPeak() { bytes_peak_ = bytes_in_use_.load(); }

  // In queue order. Upload returns when `source` may be reused, not when the copy has happened.
  void Upload(DevicePtr target, const void* source, int64_t bytes);
  void Download(void* target, DevicePtr source, int64_t bytes);  // waits: one sync
  void Copy(DevicePtr target, DevicePtr source, int64_t bytes);
  void Fill(DevicePtr target, uint8_t byte, int64_t bytes);
  void Synchronize();

  virtual std::unique_ptr<Event> RecordEvent() = 0;
  virtual std::unique_ptr<Stream> CreateStream() = 0;
  // The stream of the following calls; null is the default one.
  virtual void UseStream(Stream* stream) = 0;
  // The native handle of the current stream: cudaStream_t, cl_command_queue; null elsewhere.
  virtual void* native_stream() = 0;

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
  explicit Device(DeviceInfo info) : info_(std::move(info)) {}
  virtual void* DoAllocate(int64_t bytes) = 0;  // null if there is not enough
  virtual void DoFree(void* handle) noexcept = 0;
  virtual void DoUpload(DevicePtr target, const void* source, int64_t bytes) = 0;
  virtual void DoDownload(void* target, DevicePtr source, int64_t bytes) = 0;
  virtual void DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) = 0;
  virtual void DoFill(DevicePtr target, uint8_t byte, int64_t bytes) = 0;
  virtual void DoSynchronize() = 0;
  // The program from the cache or the compiler. Implementations that compile call CountBuild().
  virtual std::shared_ptr<Program> DoBuild(const ProgramText& text, bool use_cache) = 0;
  // Derived destructors call this first, while DoFree still works.
  void FreeEverything() noexcept;

  DeviceInfo info_;

 private:
  mutable std::mutex memory_mutex_;
  std::multimap<int64_t, void*> cached_;
  std::unordered_map<void*, int64_t> sizes_;
  std::atomic<int64_t> bytes_in_use_{0}, bytes_peak_{0};
  std::mutex program_mutex_;
  std::unordered_map<std::string, std::weak_ptr<Program>> programs_;
  std::atomic<int64_t> launches_{0}, library_calls_{0}, uploads_{0}, downloads_{0}, copies_{0},
      syncs_{0}, builds_{0}, allocations_{0}, upload_bytes_{0}, download_bytes_{0};
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
