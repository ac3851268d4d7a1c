#include "caffe/device/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <deque>
#include <iterator>
#include <mutex>
#include <string_view>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/program_cache.hpp"

namespace caffe {

namespace {

// The devices of one backend, found when they are first requested. A driver may be broken, so
// programs that use only the CPU never load one.
class LazyBackend {
 public:
  explicit LazyBackend(Backend row) : row_(std::move(row)) {}
  const Backend& row() const { return row_; }
  const BackendDevices& Get() {
    if (found_.load(std::memory_order_acquire)) return result_;
    const std::lock_guard lock(mutex_);
    if (found_.load(std::memory_order_relaxed)) return result_;
    result_ = row_.find();
    found_.store(true, std::memory_order_release);
    return result_;
  }

 private:
  const Backend row_;
  // A mutex, not std::call_once: loading a driver runs foreign code.
  std::mutex mutex_;
  std::atomic<bool> found_{false};
  BackendDevices result_;
};

thread_local Device* thread_device = nullptr;

// "opencl:pocl:0" for "pocl", "pocl:0" and "opencl:pocl", in small letters.
bool IsStableName(const std::string& name, const DeviceInfo& info) {
  if (info.stable_id.empty()) return false;
  std::string full;
  for (const char letter : name) {
    full += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  const std::string backend = info.backend + ":";
  if (!full.starts_with(backend)) full = backend + full;
  return info.stable_id == full || info.stable_id == full + ":0";
}

Device* DeviceByStableName(const std::string& name) {
  for (Device* device : Runtime::Get().devices()) {
    if (IsStableName(name, device->info())) return device;
  }
  return nullptr;
}

}  // namespace

struct Runtime::State {
  ProgramCache cache{ProgramCache::DefaultDirectory(), ProgramCache::ModeFromEnvironment()};
  std::deque<LazyBackend> backends;
  std::mutex mutex;
  std::atomic<bool> listed{false};
  std::vector<Device*> devices;
  std::vector<std::string> notes;

  LazyBackend* Find(std::string_view name) {
    for (LazyBackend& backend : backends) {
      if (backend.row().name == name) return &backend;
    }
    return nullptr;
  }
  // Opens the numbered backends in the order of the table until this one: the platforms that OpenCL
  // lists may depend on whether CUDA was initialised before (seen with NVIDIA's driver 580 beside
  // PoCL), and names must not depend on that.
  void Open(LazyBackend* last) {
    for (LazyBackend& backend : backends) {
      if (backend.row().numbered && last->row().numbered) backend.Get();
      if (&backend == last) return;
    }
  }
  void List() {
    if (listed.load(std::memory_order_acquire)) return;
    // Drivers are opened before the lock: that runs foreign code.
    for (LazyBackend& backend : backends) {
      if (backend.row().numbered) backend.Get();
    }
    const std::lock_guard lock(mutex);
    if (listed.load(std::memory_order_relaxed)) return;
    devices.clear();
    notes.clear();
    for (LazyBackend& backend : backends) {
      if (!backend.row().numbered) continue;
      const BackendDevices& found = backend.Get();
      for (const auto& device : found.devices) devices.push_back(device.get());
      if (!found.note.empty()) notes.push_back(found.note);
    }
    listed.store(true, std::memory_order_release);
  }
};

Runtime::Runtime() : state_(std::make_unique<State>()) {
  for (const Backend& row : Backends()) state_->backends.emplace_back(row);
}
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

void Runtime::AddBackend(const Backend& row) {
  const std::lock_guard lock(state_->mutex);
  for (const LazyBackend& backend : state_->backends) {
    CAFFE_CHECK(backend.row().name != row.name, "there is a backend '", row.name, "' already");
  }
  state_->backends.emplace_back(row);
  state_->listed = false;
}

Device* Runtime::cpu() { return DeviceByName("cpu"); }
Device* Runtime::null_device() { return DeviceByName("null"); }

Device* Runtime::DeviceByIndex(int index) {
  if (index == -1) return cpu();
  // The numbers of a backend's devices do not need the backends behind it.
  int64_t rest = index;
  for (LazyBackend& backend : state_->backends) {
    if (!backend.row().numbered || rest < 0) continue;
    const auto& devices = backend.Get().devices;
    if (rest < std::ssize(devices)) return devices[rest].get();
    rest -= std::ssize(devices);
  }
  std::string list = "-1: cpu";
  for (size_t i = 0; i < devices().size(); ++i) {
    list += Concat(", ", i, ": ", devices()[i]->info().id, " (", devices()[i]->info().name, ")");
  }
  CAFFE_THROW("there is no device ", index, "; there are ", list);
}

int Runtime::IndexOf(const Device* device) {
  LazyBackend* const own = state_->Find(device->backend());
  if (!own || !own->row().numbered) return -1;
  state_->Open(own);
  const auto& all = own->Get().devices;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [device](const auto& one) { return one.get() == device; });
  if (found == all.end()) return -1;
  int64_t index = found - all.begin();
  for (LazyBackend& backend : state_->backends) {
    if (&backend == own) break;
    if (backend.row().numbered) index += std::ssize(backend.Get().devices);
  }
  return static_cast<int>(index);
}

Device* Runtime::DeviceByName(const std::string& name) {
  if (LazyBackend* const named = state_->Find(name.substr(0, name.find(':')))) {
    state_->Open(named);
    for (const auto& device : named->Get().devices) {
      if (device->info().id == name) return device.get();
    }
  }
  int index = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, index);
  if (error == std::errc() && rest == end) return DeviceByIndex(index);
  if (Device* const device = DeviceByStableName(name)) return device;
  std::string list = "cpu";
  for (Device* device : devices()) {
    list += ", " + device->info().id;
    if (!device->info().stable_id.empty()) list += " (" + device->info().stable_id + ")";
  }
  CAFFE_THROW("there is no device '", name, "'; there are ", list);
}

Device* Runtime::BestDevice() {
  for (LazyBackend& backend : state_->backends) {
    if (!backend.row().numbered) continue;
    for (const auto& device : backend.Get().devices) {
      if (device->info().is_gpu) return device.get();
    }
  }
  return cpu();
}

Device* Runtime::default_device() { return thread_device ? thread_device : BestDevice(); }
void Runtime::SetDefaultDevice(Device* device) { thread_device = device; }
bool Runtime::default_device_is_set() const { return thread_device != nullptr; }

ProgramCache& Runtime::program_cache() { return state_->cache; }

}  // namespace caffe
