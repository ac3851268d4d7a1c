#include "caffe/library/cudnn/cudnn_api.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/dynamic_library.hpp"
#include "caffe/library/fallback.hpp"

namespace caffe::cudnn {
namespace {

constexpr char kFile[] = "libcudnn.so.9";

// CAFFE_CUDNN (a file or a folder), then the folders of CUDA's libraries.
std::vector<std::string> Paths() {
  std::vector<std::string> paths;
  if (const char* given = std::getenv("CAFFE_CUDNN"); given && *given) {
    std::error_code ignored;
    const bool folder = std::filesystem::is_directory(given, ignored);
    paths.push_back(folder ? std::string(given) + "/" + kFile : std::string(given));
  }
  const std::vector<std::string> others = CudaLibraryPaths({kFile});
  paths.insert(paths.end(), others.begin(), others.end());
  return paths;
}

// Libraries that cuDNN opens by their names, from folders that the loader does not search.
void OpenDependencies() {
  std::string why;
  for (const char* name :
       {"libnvrtc.so.13", "libnvrtc.so.12", "libcublasLt.so.13", "libcublasLt.so.12"}) {
    DynamicLibrary::Open(CudaLibraryPaths({name}), &why);
  }
}

std::optional<Api> Load() {
  OpenDependencies();
  std::string why;
  const auto library = DynamicLibrary::Open(Paths(), &why);
  if (!library) {
    log::Info("no cuDNN (" + why + "): CUDA devices compute convolutions as matrix products");
    return std::nullopt;
  }
  Api api;
  const bool whole = library->Bind("cudnnGetVersion", &api.Version) &&
                     library->Bind("cudnnGetErrorString", &api.ErrorString) &&
                     library->Bind("cudnnGetLastErrorString", &api.LastError) &&
                     library->Bind("cudnnCreate", &api.Create) &&
                     library->Bind("cudnnDestroy", &api.Destroy) &&
                     library->Bind("cudnnSetStream", &api.SetStream) &&
                     library->Bind("cudnnBackendCreateDescriptor", &api.CreateDescriptor) &&
                     library->Bind("cudnnBackendDestroyDescriptor", &api.DestroyDescriptor) &&
                     library->Bind("cudnnBackendFinalize", &api.Finalize) &&
                     library->Bind("cudnnBackendSetAttribute", &api.SetAttribute) &&
                     library->Bind("cudnnBackendGetAttribute", &api.GetAttribute) &&
                     library->Bind("cudnnBackendExecute", &api.Execute);
  if (!whole) {
    log::Warning(library->path() + " lacks functions of cuDNN 9 and is not used");
    return std::nullopt;
  }
  return api;
}

}  // namespace

const Api* Find() {
  static const std::optional<Api> api = Load();
  return api ? &*api : nullptr;
}

void Api::Check(int status, const char* call) const {
  if (status == 0) return;
  char message[512] = "";
  LastError(message, sizeof(message));
  message[sizeof(message) - 1] = '\0';
  throw LibraryRefusal(Concat(call, " failed: ", ErrorString(status), " (", status, ")",
                              *message ? ": " : "", message));
}

Descriptor::Descriptor(int type) {
  Find()->Check(Find()->CreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  // A plan has kernels of the driver, which does not work in a forked child.
  if (!descriptor_ || made_in_.inherited()) return;
  Find()->DestroyDescriptor(descriptor_);
}

void Descriptor::Set(int name, int type, int64_t count, const void* values) {
  const int status = Find()->SetAttribute(descriptor_, name, type, count, values);
  if (status != 0) Find()->Check(status, Concat("cudnnBackendSetAttribute ", name).c_str());
}

void Descriptor::SetIntegers(int name, const std::vector<int64_t>& values) {
  Set(name, type::kInt64, static_cast<int64_t>(values.size()), values.data());
}

void Descriptor::SetDescriptor(int name, const Descriptor& value) {
  Set(name, type::kDescriptor, 1, &value.descriptor_);
}

void Descriptor::SetDescriptors(int name, const std::vector<void*>& values) {
  Set(name, type::kDescriptor, static_cast<int64_t>(values.size()), values.data());
}

bool Descriptor::TryFinalize() { return Find()->Finalize(descriptor_) == 0; }

void Descriptor::Finalize() {
  Find()->Check(Find()->Finalize(descriptor_), "cudnnBackendFinalize");
}

int64_t Descriptor::Integer(int name) const {
  int64_t count = 0, value = 0;
  Find()->Check(Find()->GetAttribute(descriptor_, name, type::kInt64, 1, &count, &value),
                "cudnnBackendGetAttribute");
  return value;
}

std::vector<int> Descriptor::Enums(int name, int type, int capacity) const {
  std::vector<int> values(capacity);
  int64_t count = 0;
  Find()->Check(Find()->GetAttribute(descriptor_, name, type, capacity, &count, values.data()),
                "cudnnBackendGetAttribute");
  values.resize(std::min<int64_t>(count, capacity));
  return values;
}

int64_t Descriptor::Count(int name) const {
  int64_t count = 0;
  Find()->Check(Find()->GetAttribute(descriptor_, name, type::kDescriptor, 0, &count, nullptr),
                "cudnnBackendGetAttribute");
  return count;
}

int64_t Descriptor::Fill(int name, std::vector<Descriptor>* descriptors) const {
  std::vector<void*> values;
  for (const Descriptor& descriptor : *descriptors) values.push_back(descriptor.get());
  const int64_t capacity = static_cast<int64_t>(values.size());
  int64_t count = 0;
  Find()->Check(
      Find()->GetAttribute(descriptor_, name, type::kDescriptor, capacity, &count, values.data()),
      "cudnnBackendGetAttribute");
  return std::min(count, capacity);
}

Session* Session::Of(Device* device) {
  static std::mutex mutex;
  static auto* const sessions = new std::map<Device*, Session*>;
  const std::lock_guard lock(mutex);
  Session*& session = (*sessions)[device];
  if (!session) session = new Session(device);
  return session;
}

Session::PerStream& Session::OfCurrentStream() {
  const int index = device_->current_stream()->index();
  const std::lock_guard lock(mutex_);
  std::unique_ptr<PerStream>& slot = streams_[index];
  if (!slot) {
    auto made = std::make_unique<PerStream>();
    device_->native_stream();
    Find()->Check(Find()->Create(&made->handle), "cudnnCreate");
    slot = std::move(made);
  }
  return *slot;
}

Handle Session::Current() { return OfCurrentStream().handle; }

void Session::Execute(const Descriptor& plan, const Descriptor& pack) {
  PerStream& own = OfCurrentStream();
  // Threads without a StreamScope share the default stream and its handle.
  const std::lock_guard lock(own.mutex);
  void* const stream = device_->native_stream();
  if (!own.bound || own.stream != stream) {
    Find()->Check(Find()->SetStream(own.handle, stream), "cudnnSetStream");
    own.bound = true;
    own.stream = stream;
  }
  Find()->Check(Find()->Execute(own.handle, plan.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace caffe::cudnn
