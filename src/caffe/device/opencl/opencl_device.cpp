#include "caffe/device/opencl/opencl_device.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/opencl/opencl_event.hpp"
#include "caffe/device/opencl/opencl_program.hpp"
#include "caffe/device/opencl/opencl_stream.hpp"
#include "caffe/device/opencl/pocl_cache.hpp"

namespace caffe {
namespace {

cl_mem Buffer(DevicePtr pointer) { return static_cast<cl_mem>(pointer.handle); }

// The devices with a context. Never destroyed, since FlushAll runs while the process ends.
struct OpenDevices {
  std::mutex mutex;
  std::vector<OpenClDevice*> devices;
  bool flush_at_exit = false;
};

OpenDevices& AllOpen() {
  static auto* const all = new OpenDevices;
  return *all;
}

}  // namespace

OpenClStream::OpenClStream(OpenClDevice* device, opencl::Handle<cl_command_queue> queue)
    : device_(device), queue_(std::move(queue)) {}

OpenClStream::~OpenClStream() {
  if (opencl::DriverIsGone()) return;
  opencl::CheckQuietly(clFinish(queue_.get()), "clFinish", device_->where());
  device_->Forget(this);
}

OpenClDevice::OpenClDevice(DeviceInfo info, cl_platform_id platform, cl_device_id id)
    : Device(std::move(info)),
      platform_(platform),
      id_(id),
      where_(info_.id + " (" + info_.name + ")") {
  identity_ =
      Concat(opencl::PlatformText(platform, CL_PLATFORM_NAME), "\n",
             opencl::PlatformText(platform, CL_PLATFORM_VERSION), "\n", info_.vendor, "\n",
             info_.name, "\n", info_.architecture, "\n", info_.driver, "\n", info_.compiler);
  takes_binary_late_ = opencl::PlatformText(platform, CL_PLATFORM_NAME) == opencl::kPocl;
  group_size_ = std::min<int64_t>(256, info_.max_group_size);
}

OpenClDevice::~OpenClDevice() {
  {
    std::lock_guard lock(AllOpen().mutex);
    std::erase(AllOpen().devices, this);
  }
  if (open_ && !opencl::DriverIsGone()) {
    opencl::CheckQuietly(clFinish(default_queue_.get()), "clFinish", where_);
  }
  alive_.reset();
  FreeEverything();
}

void OpenClDevice::FlushAll() noexcept {
  if (opencl::DriverIsGone()) return;
  std::lock_guard lock(AllOpen().mutex);
  for (OpenClDevice* device : AllOpen().devices) device->Flush();
  opencl::process_is_ending = true;
}

void OpenClDevice::Flush() noexcept {
  std::lock_guard lock(late_mutex_);
  for (const std::weak_ptr<OpenClProgram>& entry : late_programs_) {
    if (const std::shared_ptr<OpenClProgram> program = entry.lock()) program->StoreNow();
  }
  late_programs_.clear();
}

void OpenClDevice::Open() {
  made_in_.Check(where_);
  if (open_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(open_mutex_);
  if (open_) return;
  const cl_context_properties properties[] = {
      CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform_), 0};
  cl_int code = CL_SUCCESS;
  context_.reset(clCreateContext(properties, 1, &id_, nullptr, nullptr, &code));
  opencl::Check(code, "clCreateContext", where_);
  default_queue_ = MakeQueue();
  staging_ = std::make_unique<opencl::StagingRing>(context_.get(), default_queue_.get(), where_);
  current_queue_ = default_queue_.get();
  {
    std::lock_guard all_lock(AllOpen().mutex);
    AllOpen().devices.push_back(this);
    // Registered after the driver was loaded, so it runs before the driver's own destructors.
    if (!std::exchange(AllOpen().flush_at_exit, true)) std::atexit(FlushAll);
  }
  open_.store(true, std::memory_order_release);
}

opencl::Handle<cl_command_queue> OpenClDevice::MakeQueue(cl_command_queue_properties properties) {
  cl_int code = CL_SUCCESS;
  opencl::Handle<cl_command_queue> queue(
      clCreateCommandQueue(context_.get(), id_, properties, &code));
  opencl::Check(code, "clCreateCommandQueue", where_);
  return queue;
}

cl_context OpenClDevice::context() {
  Open();
  return context_.get();
}

cl_command_queue OpenClDevice::queue() {
  Open();
  return current_queue_;
}

cl_command_queue OpenClDevice::default_queue() {
  Open();
  return default_queue_.get();
}

std::unique_ptr<Event> OpenClDevice::RecordEvent() {
  const cl_command_queue current = queue();
  {
    std::lock_guard lock(open_mutex_);
    if (clock_queue_ == nullptr) {
      cl_int code = CL_SUCCESS;
      clock_target_.reset(
          clCreateBuffer(context_.get(), CL_MEM_READ_WRITE, sizeof(cl_int), nullptr, &code));
      opencl::Check(code, "clCreateBuffer", where_);
      clock_queue_ = MakeQueue(CL_QUEUE_PROFILING_ENABLE);
    }
  }
  cl_event event = nullptr;
  opencl::Check(clEnqueueMarkerWithWaitList(current, 0, nullptr, &event),
                "clEnqueueMarkerWithWaitList", where_);
  const opencl::Handle<cl_event> reached(event);
  opencl::Check(clFlush(current), "clFlush", where_);
  // A command that does something: NVIDIA's driver gives the time 0 to a marker that only waits.
  const cl_int zero = 0;
  const cl_event after = reached.get();
  opencl::Check(clEnqueueFillBuffer(clock_queue_.get(), clock_target_.get(), &zero, sizeof zero, 0,
                                    sizeof zero, 1, &after, &event),
                "clEnqueueFillBuffer", where_);
  opencl::Handle<cl_event> timed(event);
  opencl::Check(clFlush(clock_queue_.get()), "clFlush", where_);
  return std::make_unique<OpenClEvent>(std::move(timed), where_);
}

std::unique_ptr<Stream> OpenClDevice::CreateStream() {
  Open();
  auto stream = std::make_unique<OpenClStream>(this, MakeQueue());
  std::lock_guard lock(streams_mutex_);
  streams_.push_back(stream.get());
  return stream;
}

void OpenClDevice::UseStream(Stream* stream) {
  cl_command_queue next = default_queue();
  if (stream != nullptr) {
    auto* own = dynamic_cast<OpenClStream*>(stream);
    CAFFE_CHECK(own != nullptr && own->device() == this, where_,
                ": UseStream with a stream of another device");
    next = own->queue();
  }
  const cl_command_queue last = current_queue_.exchange(next);
  // What was enqueued so far starts now, even if nobody waits for that queue.
  if (last != next) opencl::Check(clFlush(last), "clFlush", where_);
}

void OpenClDevice::Forget(const OpenClStream* stream) noexcept {
  cl_command_queue queue = stream->queue();
  current_queue_.compare_exchange_strong(queue, default_queue_.get());
  std::lock_guard lock(streams_mutex_);
  std::erase(streams_, stream);
}

void* OpenClDevice::DoAllocate(int64_t bytes) {
  cl_int code = CL_SUCCESS;
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const cl_mem buffer = clCreateBuffer(context(), CL_MEM_READ_WRITE, size, nullptr, &code);
  switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE: return nullptr;
    default: opencl::Check(code, "clCreateBuffer", where_);
  }
  // Drivers may put the allocation off to the first use, where its failure has no name any more.
  code = clEnqueueMigrateMemObjects(default_queue(), 1, &buffer,
                                    CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, nullptr, nullptr);
  if (code != CL_SUCCESS) {
    DoFree(buffer);
    return nullptr;
  }
  return buffer;
}

void OpenClDevice::DoFree(void* handle) noexcept {
  if (opencl::DriverIsGone()) return;
  opencl::CheckQuietly(clReleaseMemObject(static_cast<cl_mem>(handle)), "clReleaseMemObject",
                       where_);
}

void OpenClDevice::DoUpload(DevicePtr target, const void* source, int64_t bytes) {
  if (bytes <= 0) return;
  const cl_command_queue current = queue();
  staging_->Upload(current, Buffer(target), target.offset, static_cast<const char*>(source), bytes);
}

void OpenClDevice::DoDownload(void* target, DevicePtr source, int64_t bytes) {
  if (bytes <= 0) return;
  opencl::Check(clEnqueueReadBuffer(queue(), Buffer(source), CL_TRUE, source.offset, bytes, target,
                                    0, nullptr, nullptr),
                "clEnqueueReadBuffer", where_);
  StoreLateBinaries();
}

void OpenClDevice::DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) {
  if (bytes <= 0 || target == source) return;
  opencl::Check(clEnqueueCopyBuffer(queue(), Buffer(source), Buffer(target), source.offset,
                                    target.offset, bytes, 0, nullptr, nullptr),
                "clEnqueueCopyBuffer", where_);
}

void OpenClDevice::DoFill(DevicePtr target, uint8_t byte, int64_t bytes) {
  if (bytes <= 0) return;
  std::array<uint8_t, 16> pattern;
  pattern.fill(byte);
  const auto fill = [&](int64_t offset, int64_t count, size_t pattern_bytes) {
    if (count == 0) return;
    opencl::Check(clEnqueueFillBuffer(queue(), Buffer(target), pattern.data(), pattern_bytes,
                                      offset, count, 0, nullptr, nullptr),
                  "clEnqueueFillBuffer", where_);
  };
  // Some drivers write one pattern per work item: as much as possible goes with a wide one.
  const int64_t end = target.offset + bytes;
  const int64_t wide_begin = std::min((target.offset + 15) / 16 * 16, end);
  const int64_t wide_end = std::max(end / 16 * 16, wide_begin);
  fill(target.offset, wide_begin - target.offset, 1);
  fill(wide_begin, wide_end - wide_begin, 16);
  fill(wide_end, end - wide_end, 1);
}

void OpenClDevice::DoSynchronize() {
  opencl::Check(clFinish(default_queue()), "clFinish", where_);
  {
    std::lock_guard lock(streams_mutex_);
    for (const OpenClStream* stream : streams_) {
      opencl::Check(clFinish(stream->queue()), "clFinish", where_ + ", a stream");
    }
  }
  StoreLateBinaries();
}

std::shared_ptr<Program> OpenClDevice::DoBuild(const ProgramText& text, bool use_cache) {
  std::shared_ptr<OpenClProgram> program = OpenClProgram::Make(this, text, use_cache);
  if (program->wants_store()) {
    std::lock_guard lock(late_mutex_);
    late_programs_.push_back(program);
    any_late_ = true;
  }
  return program;
}

void OpenClDevice::StoreLateBinaries() {
  if (!any_late_) return;
  std::lock_guard lock(late_mutex_);
  std::erase_if(late_programs_, [](const std::weak_ptr<OpenClProgram>& entry) {
    const std::shared_ptr<OpenClProgram> program = entry.lock();
    return program == nullptr || program->StoreAfterWait();
  });
  any_late_ = !late_programs_.empty();
}

}  // namespace caffe
