#include "caffe/device/cuda/cuda_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/cuda/cuda_program.hpp"
#include "caffe/device/cuda/free_memory.hpp"
#include "caffe/device/cuda/nvrtc.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/device/runtime.hpp"

namespace caffe {
namespace {

using cuda::CudaContext;
using cuda::CudaStream;
using cuda::CUdeviceptr;
using cuda::Driver;

CUdeviceptr Address(DevicePtr pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer.handle) + static_cast<CUdeviceptr>(pointer.offset);
}

// In nvidia-smi's form.
std::string UuidText(const cuda::CUuuid& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", uuid.bytes[i]);
    text += digits;
  }
  return text;
}

// "580.159.03, CUDA 13.0"; the first part only if the kernel module provides it.
std::string DriverText(int cuda_version) {
  std::string release;
  std::ifstream("/sys/module/nvidia/version") >> release;
  return (release.empty() ? "" : release + ", ") + "CUDA " + cuda::CudaVersionText(cuda_version);
}

std::unique_ptr<Device> MakeCudaDevice(const Driver& driver, const cuda::Nvrtc& nvrtc, int index,
                                       std::string* note) {
  cuda::CUdevice device = 0;
  driver.cuDeviceGet(&device, index);
  auto attribute = [&](int which) {
    int value = 0;
    driver.cuDeviceGetAttribute(&value, which, device);
    return value;
  };
  DeviceInfo info;
  info.backend = "cuda";
  info.dialect = BackendNamed(info.backend).dialect;
  info.id = Concat("cuda:", index);
  char name[256] = "";
  driver.cuDeviceGetName(name, sizeof(name) - 1, device);
  info.name = name;
  if (attribute(cuda::kComputeMode) == cuda::kComputeModeProhibited) {
    *note += Concat(info.id, " (", info.name, ") is set to a mode that prohibits computing; ");
    return nullptr;
  }
  int version = 0;
  driver.cuDriverGetVersion(&version);
  size_t memory = 0;
  driver.cuDeviceTotalMem(&memory, device);
  cuda::CUuuid uuid{};
  driver.cuDeviceGetUuid(&uuid, device);
  const int capability = 10 * attribute(cuda::kCapabilityMajor) + attribute(cuda::kCapabilityMinor);
  info.vendor = "NVIDIA";
  info.platform = "CUDA";
  info.driver = DriverText(version);
  info.architecture = Concat("sm_", capability);
  info.compiler = "NVRTC " + nvrtc.version;
  info.memory_bytes = static_cast<int64_t>(memory);
  // The limit for LOCAL arrays. The larger opt-in limit is for memory whose size is given at
  // launch, which the dialect does not have; the compiler refuses larger arrays.
  info.local_memory_bytes = attribute(cuda::kMaxSharedMemoryPerBlock);
  info.max_group_size = attribute(cuda::kMaxThreadsPerBlock);
  info.compute_units = attribute(cuda::kMultiprocessorCount);
  info.native_half = capability >= 53;
  info.dp4a = capability >= 61;
  info.matrix = capability >= 80;         // the shapes of mma.sync that the dialect uses
  info.matrix_groups = capability == 90;  // wgmma
  info.subgroups = true;
  info.is_gpu = true;
  info.unified_memory = attribute(cuda::kIntegrated) != 0;
  info.fp64 = true;
  info.unique_id = UuidText(uuid);
  return std::make_unique<CudaDevice>(device, std::move(info), nvrtc.TargetFor(capability));
}

class CudaGraph final : public Graph {
 public:
  CudaGraph(CudaDevice* device, std::shared_ptr<CudaContext> context, cuda::CUgraphExec exec)
      : device_(device), context_(std::move(context)), exec_(exec) {}
  // The driver completes launches that still run.
  ~CudaGraph() override {
    if (context_->MakeCurrentIfCreated()) Driver::Get().cuGraphExecDestroy.OrLog(exec_);
  }

 protected:
  void DoLaunch() override {
    auto* const stream = static_cast<cuda::CUstream>(device_->native_stream());
    Driver::Get().cuGraphLaunch(exec_, stream);
  }

 private:
  CudaDevice* const device_;
  const std::shared_ptr<CudaContext> context_;
  const cuda::CUgraphExec exec_;
};

}  // namespace

CudaDevice::CudaDevice(cuda::CUdevice device, DeviceInfo info, std::string target)
    : Device(std::move(info)),
      context_(std::make_shared<CudaContext>(device)),
      target_(std::move(target)) {}

CudaDevice::~CudaDevice() { FreeEverything(); }

Stream* CudaDevice::default_stream() {
  if (CudaStream* stream = default_stream_.load(std::memory_order_acquire)) return stream;
  const std::lock_guard lock(default_stream_mutex_);
  if (!made_default_stream_) {
    made_default_stream_ = std::make_unique<CudaStream>(this, context_);
    default_stream_.store(made_default_stream_.get(), std::memory_order_release);
  }
  return made_default_stream_.get();
}

std::unique_ptr<Stream> CudaDevice::DoCreateStream() {
  return std::make_unique<CudaStream>(this, context_);
}

// The calling thread's stream; makes the context current.
CudaStream& CudaDevice::stream() {
  context_->MakeCurrent();
  return static_cast<CudaStream&>(*current_stream());
}

bool CudaDevice::can_capture() const { return Driver::Get().HasGraphs(); }

Stream* CudaDevice::DoBeginCapture() {
  if (!capture_stream_) capture_stream_ = std::make_unique<CudaStream>(this, context_);
  context_->MakeCurrent();
  Driver::Get().cuStreamBeginCapture(capture_stream_->stream(), cuda::kCaptureThreadLocal);
  recorded_any_ = false;
  ends_.clear();
  return capture_stream_.get();
}

// The nodes that the next recorded node depends on.
CudaDevice::Dependencies CudaDevice::CaptureDependencies() const {
  int status = 0;
  unsigned long long id = 0;
  cuda::CUgraph graph = nullptr;
  const cuda::CUgraphNode* nodes = nullptr;
  const cuda::CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  Driver::Get().cuStreamGetCaptureInfo(capture_stream_->stream(), &status, &id, &graph, &nodes,
                                       &edges, &count);
  Dependencies now;
  for (size_t i = 0; i < count; ++i) {
    now.push_back({nodes[i], edges ? edges[i] : cuda::CUgraphEdgeData{}});
  }
  return now;
}

// The stream's dependencies are the last nodes of what was recorded since they were set.
bool CudaDevice::DoOrderAfter(std::span<const int> pieces) {
  const Driver& driver = Driver::Get();
  if (!driver.HasBranches()) return false;
  context_->MakeCurrent();
  Dependencies after;
  const auto add = [&](const Dependencies& more) {
    for (const Dependency& one : more) {
      if (std::find(after.begin(), after.end(), one) == after.end()) after.push_back(one);
    }
  };
  if (recorded_any_) {
    ends_.push_back(CaptureDependencies());
    // Nothing was recorded: the next node belongs to the piece before, too.
    if (ends_.back() == newest_after_) add(newest_after_);
  }
  recorded_any_ = true;
  for (const int piece : pieces) add(ends_[piece]);
  std::vector<cuda::CUgraphNode> nodes;
  std::vector<cuda::CUgraphEdgeData> edges;
  for (const Dependency& one : after) {
    nodes.push_back(one.node);
    edges.push_back(one.edge);
  }
  driver.cuStreamUpdateCaptureDependencies(capture_stream_->stream(), nodes.data(), edges.data(),
                                           nodes.size(), cuda::kSetCaptureDependencies);
  newest_after_ = std::move(after);
  return true;
}

std::unique_ptr<Graph> CudaDevice::DoEndCapture(bool keep) {
  context_->MakeCurrent();
  const Driver& driver = Driver::Get();
  cuda::CUgraph graph = nullptr;
  const cuda::CUresult result = driver.cuStreamEndCapture.Try(capture_stream_->stream(), &graph);
  if (!keep) {
    // The result may be the failure because of which the capture is abandoned.
    if (graph) driver.cuGraphDestroy.OrLog(graph);
    return nullptr;
  }
  if (result != cuda::kSuccess) {
    cuda::ThrowDriverError(driver.cuStreamEndCapture.name(), result);
  }
  CAFFE_CHECK(graph, info_.id, ": the driver returned no graph");
  cuda::CUgraphExec exec = nullptr;
  const cuda::CUresult made = driver.cuGraphInstantiate.Try(&exec, graph, 0);
  driver.cuGraphDestroy.OrLog(graph);
  if (made != cuda::kSuccess) cuda::ThrowDriverError(driver.cuGraphInstantiate.name(), made);
  return std::make_unique<CudaGraph>(this, context_, exec);
}

void* CudaDevice::native_stream() { return stream().stream(); }

void* CudaDevice::DoAllocate(int64_t bytes) {
  context_->MakeCurrent();
  const auto& allocate = Driver::Get().cuMemAlloc;
  CUdeviceptr address = 0;
  const cuda::CUresult result = allocate.Try(&address, static_cast<size_t>(bytes));
  if (result == cuda::kOutOfMemory) return nullptr;
  if (result != cuda::kSuccess) cuda::ThrowDriverError(allocate.name(), result);
  return reinterpret_cast<void*>(address);
}

int64_t CudaDevice::FreeBytes() const {
  context_->MakeCurrent();
  size_t free = 0, all = 0;
  Driver::Get().cuMemGetInfo(&free, &all);
  return static_cast<int64_t>(free);
}

std::optional<int64_t> FreeCudaMemory(const Device& device) {
  const auto* const cuda = dynamic_cast<const CudaDevice*>(&device);
  return cuda ? std::optional(cuda->FreeBytes()) : std::nullopt;
}

void CudaDevice::DoFree(void* handle) noexcept {
  // The driver waits for work that still uses the memory.
  if (context_->MakeCurrentIfCreated()) {
    Driver::Get().cuMemFree.OrLog(reinterpret_cast<CUdeviceptr>(handle));
  }
}

void CudaDevice::DoUpload(DevicePtr target, const void* source, int64_t bytes) {
  stream().staging().Upload(Address(target), source, bytes);
}

void CudaDevice::DoDownload(void* target, DevicePtr source, int64_t bytes) {
  stream().staging().Download(target, Address(source), bytes);
}

void CudaDevice::DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) {
  const CudaStream& to = stream();
  Driver::Get().cuMemcpyDtoDAsync(Address(target), Address(source), static_cast<size_t>(bytes),
                                  to.stream());
}

void CudaDevice::DoFill(DevicePtr target, uint8_t byte, int64_t bytes) {
  const CudaStream& to = stream();
  Driver::Get().cuMemsetD8Async(Address(target), byte, static_cast<size_t>(bytes), to.stream());
}

std::string CudaDevice::ProgramKey(const ProgramText& text) const {
  CacheKeyParts parts;
  parts.source = text.source;
  for (const std::string& option : cuda::NvrtcOptions(text, target_)) parts.options += option + " ";
  parts.backend = "cuda";
  parts.device_identity =
      Concat(info_.name, "\n", info_.architecture, "\n", info_.driver, "\n", info_.compiler);
  return CacheKey(parts);
}

std::shared_ptr<Program> CudaDevice::DoBuild(const ProgramText& text, bool use_cache) {
  context_->MakeCurrent();
  ProgramCache& cache = Runtime::Get().program_cache();
  const std::string key = ProgramKey(text);
  if (use_cache) {
    if (const auto entry = cache.Find(key)) {
      CAFFE_CHECK(!entry->refused, info_.id, " (", info_.name, "): ",
                  cuda::BuildErrorText(text, target_,
                                       "the program cache has stored that it does not compile",
                                       entry->build_log));
      try {
        return std::make_shared<cuda::CudaProgram>(this, context_, text, entry->binary);
      } catch (const Error& error) {
        log::Warning(
            Concat("the cached program '", text.name, "' is compiled again: ", error.what()));
        cache.Remove(key);
      }
    }
  }
  std::string why;
  const cuda::Nvrtc* nvrtc = cuda::Nvrtc::Find(&why);
  CAFFE_CHECK(nvrtc, info_.id, ": ", why);
  const auto start = std::chrono::steady_clock::now();
  CountBuild();
  cuda::CompileResult result = cuda::Compile(*nvrtc, text, target_);
  ProgramCache::Entry entry;
  entry.build_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!result.error.empty()) {
    if (result.rejected && use_cache) {
      entry.build_log = std::move(result.log);
      entry.refused = true;
      cache.Store(key, info_.name, text.name, entry);
    }
    CAFFE_THROW(info_.id, " (", info_.name, "): ", result.error);
  }
  log::Debug(Concat("compiled '", text.name, "' for ", target_, " in ", entry.build_seconds, " s"));
  // Only binaries that the driver accepts are stored.
  auto program = std::make_shared<cuda::CudaProgram>(this, context_, text, result.binary);
  if (use_cache) {
    entry.binary = std::move(result.binary);
    entry.build_log = std::move(result.log);
    cache.Store(key, info_.name, text.name, entry);
  }
  return program;
}

BackendDevices FindCudaDevices() {
  BackendDevices found;
  const Driver* driver = Driver::Find(&found.note);
  if (!driver) return found;
  try {
    int count = 0;
    driver->cuDeviceGetCount(&count);
    std::string why;
    const cuda::Nvrtc* nvrtc = count > 0 ? cuda::Nvrtc::Find(&why) : nullptr;
    if (!nvrtc) {
      found.note = count == 0 ? "the CUDA driver finds no device"
                              : Concat(count, " CUDA device(s) cannot be used: ", why);
      return found;
    }
    for (int i = 0; i < count; ++i) {
      if (auto device = MakeCudaDevice(*driver, *nvrtc, i, &found.note)) {
        found.devices.push_back(std::move(device));
      }
    }
  } catch (const Error& error) {
    found.note += Concat("CUDA: ", error.what());
  }
  return found;
}

}  // namespace caffe
