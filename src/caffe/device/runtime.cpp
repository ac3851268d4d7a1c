#include "caffe/device/runtime.hpp"

#include <atomic>
#include <charconv>
#include <iterator>
#include <mutex>

#include "caffe/core/error.hpp"
#include "caffe/device/program_cache.hpp"

namespace caffe {

struct Runtime::State {
  ProgramCache cache{ProgramCache::DefaultDirectory(), ProgramCache::ModeFromEnvironment()};
  // A mutex, not std::call_once: drivers run code of their own while they are loaded here.
  std::mutex mutex;
  std::atomic<bool> found{false};
  std::unique_ptr<Device> cpu, null_device;
  std::vector<std::unique_ptr<Device>> owned;
  std::vector<Device*> devices;
  std::vector<std::string> notes;

  void Find() {
    if (found.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex);
    if (found.load(std::memory_order_relaxed)) return;
    std::vector<std::unique_ptr<Device>> all;
    std::vector<std::string> all_notes;
    for (auto find : {FindCudaDevices, FindOpenClDevices}) {
      BackendDevices backend = find();
      if (!backend.note.empty()) all_notes.push_back(backend.note);
      std::move(backend.devices.begin(), backend.devices.end(), std::back_inserter(all));
    }
    for (const auto& device : all) devices.push_back(device.get());
    owned = std::move(all);
    notes = std::move(all_notes);
    found.store(true, std::memory_order_release);
  }

  Device* Made(std::unique_ptr<Device>* device, std::unique_ptr<Device> (*make)()) {
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

// Never destroyed: blobs with static lifetime, and Python objects at exit, may outlive any order of
// destruction. Drivers give everything back when the process ends.
Runtime& Runtime::Get() {
  static Runtime* const runtime = new Runtime;
  return *runtime;
}

const std::vector<Device*>& Runtime::devices() {
  state_->Find();
  return state_->devices;
}

const std::vector<std::string>& Runtime::notes() {
  state_->Find();
  return state_->notes;
}

Device* Runtime::cpu() { return state_->Made(&state_->cpu, MakeCpuDevice); }
Device* Runtime::null_device() { return state_->Made(&state_->null_device, MakeNullDevice); }

Device* Runtime::DeviceByIndex(int index) {
  if (index == -1) return cpu();
  if (index < 0 || index >= static_cast<int>(devices().size())) {
    std::string list = "-1: cpu";
    for (size_t i = 0; i < devices().size(); ++i) {
      list += Concat(", ", i, ": ", devices()[i]->info().id, " (", devices()[i]->info().name, ")");
    }
    CAFFE_THROW("there is no device ", index, "; there are ", list);
  }
  return devices()[index];
}

Device* Runtime::DeviceByName(const std::string& name) {
  if (name == "cpu") return cpu();
  if (name == "null") return null_device();
  for (Device* device : devices()) {
    if (device->info().id == name) return device;
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
  for (Device* device : devices()) {
    if (!device->info().is_cpu_type) return device;
  }
  return cpu();
}

Device* Runtime::default_device() { return thread_device ? thread_device : BestDevice(); }
void Runtime::SetDefaultDevice(Device* device) { thread_device = device; }
bool Runtime::default_device_is_set() const { return thread_device != nullptr; }

ProgramCache& Runtime::program_cache() { return state_->cache; }

}  // namespace caffe
