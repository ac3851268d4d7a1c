#include "caffe/device/null_device.hpp"

#include <cstdlib>
#include <cstring>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

class NullEvent final : public Event {
 public:
  explicit NullEvent(const Stream& stream) : Event(stream) {}
  void Wait() override {}
  double SecondsSince(Event&) override { return 0; }
};

class NullStream final : public Stream {
 public:
  explicit NullStream(Device* device) : Stream(device) {}
  ~NullStream() override { Retire(); }
  std::unique_ptr<Event> Record(bool) override { return std::make_unique<NullEvent>(*this); }
  void Synchronize() override {}
  void* native() const override { return nullptr; }

 protected:
  void DoWaitFor(Event&) override {}
};

class NullKernel final : public Kernel {
 public:
  NullKernel(Device* device, KernelSignature signature, const TypeTriple& types)
      : Kernel(device, std::move(signature), types) {}

 protected:
  void DoLaunch(const LaunchRange&, const KernelArguments&) override {}
  void DoLaunchGroups(const LaunchGroups&, const KernelArguments&) override {}
};

class NullProgram final : public Program {
 public:
  NullProgram(Device* device, ProgramText text) : device_(device), text_(std::move(text)) {}
  std::unique_ptr<Kernel> CreateKernel(const std::string& name) override {
    for (const KernelSignature& kernel : text_.kernels) {
      if (kernel.name == name) return std::make_unique<NullKernel>(device_, kernel, text_.types);
    }
    CAFFE_THROW("null: program ", text_.name, " declares no kernel ", name);
  }

 private:
  Device* device_;
  ProgramText text_;
};

DeviceInfo NullInfo(const std::string& text_for) {
  DeviceInfo info;
  info.dialect = BackendNamed(text_for).dialect;
  CAFFE_CHECK(info.has_groups(), "the null device makes text for OpenCL or CUDA, not for ",
              text_for);
  info.id = "null";
  info.name = "null device";
  info.architecture = text_for;
  info.fp64 = true;
  info.matrix = info.matrix_groups = info.dp4a = text_for == "cuda";
  return info;
}

}  // namespace

NullDevice::NullDevice(const std::string& text_for)
    : Device(NullInfo(text_for)), default_stream_(std::make_unique<NullStream>(this)) {}
NullDevice::~NullDevice() { FreeEverything(); }

std::unique_ptr<Stream> NullDevice::DoCreateStream() { return std::make_unique<NullStream>(this); }

void* NullDevice::DoAllocate(int64_t bytes) { return std::malloc(bytes); }
void NullDevice::DoFree(void* handle) noexcept { std::free(handle); }

void NullDevice::DoUpload(DevicePtr target, const void* source, int64_t bytes) {
  std::memcpy(target.address(), source, bytes);
}

void NullDevice::DoDownload(void* target, DevicePtr source, int64_t bytes) {
  std::memcpy(target, source.address(), bytes);
}

void NullDevice::DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) {
  std::memmove(target.address(), source.address(), bytes);
}

void NullDevice::DoFill(DevicePtr target, uint8_t byte, int64_t bytes) {
  std::memset(target.address(), byte, bytes);
}

std::shared_ptr<Program> NullDevice::DoBuild(const ProgramText& text, bool) {
  CountBuild();
  texts_.push_back(text);
  return std::make_shared<NullProgram>(this, text);
}

BackendDevices FindNull() {
  BackendDevices found;
  found.devices.push_back(std::make_unique<NullDevice>());
  return found;
}

}  // namespace caffe
