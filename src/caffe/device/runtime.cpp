#include "caffe/device/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>

#include "caffe/core/error.hpp"
#include "caffe/device/program_cache.hpp"

namespace caffe {

namespace {

// The devices of one backend, found when they are first requested. A driver may be broken, so
// programs that use only the CPU never load one.
class LazyBackend {
 public:
  explicit LazyBackend(BackendDevices (*find)()) : find_(find) {}
  const BackendDevices& Get() {
    if (found_.load(std::memory_order_acquire)) return result_;
    const std::lock_guard lock(mutex_);
    if (found_.load(std::memory_order_relaxed)) return result_;
    result_ = find_();
    found_.store(true, std::memory_order_release);
    return result_;
  }

 private:
  BackendDevices (*find_)();
  // A mutex, not std::call_once: loading a driver runs foreign code.
  std::mutex mutex_;
  std::atomic<bool> found_{false};
  BackendDevices result_;
};

}  // namespace

struct Runtime::State {
  ProgramCache cache{ProgramCache::DefaultDirectory(), ProgramCache::ModeFromEnvironment()};
  LazyBackend cuda{FindCudaDevices}, opencl{FindOpenClDevices};
  std::mutex mutex;
  std::atomic<bool> listed{false};
  std::unique_ptr<Device> cpu, null_device;
  std::vector<Device*> devices;
  std::vector<std::string> notes;

  void List() {
    if (listed.load(std::memory_order_acquire)) return;
    const BackendDevices* const backends[] = {&cuda.Get(), &opencl.Get()};
    const std::lock_guard lock(mutex);
    if (listed.load(std::memory_order_relaxed)) return;
    for (const BackendDevices* backend : backends) {
      for (const auto& device : backend->devices) devices.push_back(device.get());
      if (!backend->note.empty()) notes.push_back(backend->note);
    }
    listed.store(true, std::memory_order_release);
  }

  Device* GetOrMake(std::unique_ptr<Device>* device, std::unique_ptr<Device> (*make)()) {
    const std::lock_guard lock(host_mutex);
    if (!*device) *device = make();
    return device->get();
  }
  std::mutex host_mutex;
};

namespace {
thread_local Device* thread_device = nullptr;
}

Runtime::Runtime() : state_(std::make_unique<State>()) {}
Runtime::~Runtime() = default;

// Never destroyed: blobs with static lifetime, and Python objects at exit, may be destroyed in any
// order. When the process ends, drivers release everything.
Runtime& Runtime::Get() {
  static Runtime* const runtime = new Runtime;
  return *runtime;
}

const std::vector<Device*>& Runtime::devices() {
  state_->List();
  return state_->devices;
}

const std::vector<std::string>& Runtime::notes() {
  state_->List();
  return state_->notes;
}

Device* Runtime::cpu() { return state_->GetOrMake(&state_->cpu, MakeCpuDevice); }
Device* Runtime::null_device() { return state_->GetOrMake(&state_->null_device, MakeNullDevice); }

Device* Runtime::DeviceByIndex(int index) {
  if (index == -1) return cpu();
  // CUDA's devices come first, so that their numbers do not need OpenCL.
  const auto& cuda = state_->cuda.Get().devices;
  if (index >= 0 && index < static_cast<int>(cuda.size())) return cuda[index].get();
  if (index < 0 || index >= static_cast<int>(devices().size())) {
    std::string list = "-1: cpu";
    for (size_t i = 0; i < devices().size(); ++i) {
      list += Concat(", ", i, ": ", devices()[i]->info().id, " (", devices()[i]->info().name, ")");
    }
    CAFFE_THROW("there is no device ", index, "; there are ", list);
  }
  return devices()[index];
}

int Runtime::IndexOf(const Device* device) {
  const auto number = [device](const BackendDevices& backend) {
    const auto& all = backend.devices;
    const auto found = std::find_if(all.begin(), all.end(),
                                    [device](const auto& one) { return one.get() == device; });
    return found == all.end() ? -1 : static_cast<int>(found - all.begin());
  };
  switch (device->backend()) {
    case Backend::kCuda: return number(state_->cuda.Get());
    case Backend::kOpenCl: {
      const int index = number(state_->opencl.Get());
      return index < 0 ? -1 : index + static_cast<int>(state_->cuda.Get().devices.size());
    }
    case Backend::kCpu:
    case Backend::kNull: break;
  }
  return -1;
}

Device* Runtime::DeviceByName(const std::string& name) {
  if (name == "cpu") return cpu();
  if (name == "null") return null_device();
  for (LazyBackend* backend : {&state_->cuda, &state_->opencl}) {
    if (!name.starts_with(backend == &state_->cuda ? "cuda:" : "opencl:")) continue;
    // Always in this order: the platforms that OpenCL lists may depend on whether CUDA was
    // initialised before (seen with NVIDIA's driver 580 beside PoCL), and names must not depend on
    // that.
    state_->cuda.Get();
    for (const auto& device : backend->Get().devices) {
      if (device->info().id == name) return device.get();
    }
  }
  int index = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, index);
  if (error == std::errc() && rest == end) return DeviceByIndex(index);
  std::string list = "cpu";
  for (Device* device : devices()) list += ", " + device->info().id;
  CAFFE_THROW("there is no device '", name, "'; there are ", list);
}

Device* Runtime::BestDevice() {
  for (LazyBackend* backend : {&state_->cuda, &state_->opencl}) {
    for (const auto& device : backend->Get().devices) {
      if (!device->info().is_cpu_type) return device.get();
    }
  }
  return cpu();
}

Device* Runtime::default_device() { return thread_device ? thread_device : BestDevice(); }
void Runtime::SetDefaultDevice(Device* device) { thread_device = device; }
bool Runtime::default_device_is_set() const { return thread_device != nullptr; }

ProgramCache& Runtime::program_cache() { return state_->cache; }

}  // namespace caffe
