#include "caffe/device/opencl/opencl_device.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/opencl/driver_check.hpp"
#include "caffe/device/opencl/opencl_graph.hpp"
#include "caffe/device/opencl/opencl_program.hpp"
#include "caffe/device/opencl/pocl_cache.hpp"

namespace caffe {
namespace {

cl_mem Buffer(DevicePtr pointer) { return static_cast<cl_mem>(pointer.handle); }

// The devices that have a context. Never destroyed, since FlushAll runs while the process ends.
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

OpenClDevice::OpenClDevice(DeviceInfo info, cl_platform_id platform, cl_device_id id)
    : Device(std::move(info)),
      platform_(platform),
      id_(id),
      where_(info_.id + " (" + info_.name + ")"),
      command_buffers_(opencl::CommandBufferFunctions::Find(platform, id)) {
  identity_ =
      Concat(opencl::PlatformText(platform, CL_PLATFORM_NAME), "\n",
             opencl::PlatformText(platform, CL_PLATFORM_VERSION), "\n", info_.vendor, "\n",
             info_.name, "\n", info_.architecture, "\n", info_.driver, "\n", info_.compiler);
  takes_binary_late_ = opencl::PlatformText(platform, CL_PLATFORM_NAME) == opencl::kPocl;
}

OpenClDevice::~OpenClDevice() {
  {
    std::lock_guard lock(AllOpen().mutex);
    std::erase(AllOpen().devices, this);
  }
  if (open_ && !opencl::DriverIsGone()) {
    opencl::CheckQuietly(clFinish(default_stream_->queue()), "clFinish", where_);
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
  default_stream_ = std::make_unique<OpenClStream>(this, MakeQueue());
  {
    std::lock_guard all_lock(AllOpen().mutex);
    AllOpen().devices.push_back(this);
    // Registered after the driver was loaded, so FlushAll runs before the driver's own destructors.
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

Stream* OpenClDevice::default_stream() {
  Open();
  return default_stream_.get();
}

cl_command_queue OpenClDevice::queue() {
  Open();
  return static_cast<OpenClStream&>(*current_stream()).queue();
}

void* OpenClDevice::native_stream() {
  CAFFE_CHECK(!record(), where_, ": a call of a library cannot be recorded");
  return queue();
}

cl_command_queue OpenClDevice::BranchQueue(size_t index) {
  const std::lock_guard lock(branch_mutex_);
  while (branch_queues_.size() <= index) branch_queues_.push_back(MakeQueue());
  return branch_queues_[index].get();
}

opencl::Record* OpenClDevice::record() { return Capture::Recording(this) ? &record_ : nullptr; }

void OpenClDevice::Submit(const opencl::Work& work, const std::string& where,
                          std::shared_ptr<const void> keeps) {
  if (opencl::Record* const record = this->record()) [[unlikely]] {
    record->Add(current_stream(), work, where, std::move(keeps));
  } else {
    opencl::Enqueue(work, queue(), {}, nullptr, where);
  }
}

Stream* OpenClDevice::DoBeginCapture() {
  Open();
  if (!capture_stream_) capture_stream_ = std::make_unique<OpenClStream>(this, MakeQueue());
  record_ = {};
  return capture_stream_.get();
}

std::unique_ptr<Graph> OpenClDevice::DoEndCapture(bool keep) {
  std::vector<opencl::Command> commands = record_.Take();
  record_ = {};
  return keep ? std::make_unique<OpenClGraph>(this, std::move(commands)) : nullptr;
}

bool OpenClDevice::DoOrderAfter(std::span<const int> pieces) {
  record_.OrderAfter(pieces);
  return true;
}

std::unique_ptr<Stream> OpenClDevice::DoCreateStream() {
  Open();
  return std::make_unique<OpenClStream>(this, MakeQueue());
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
  // Drivers may delay the allocation until the first use, where an error could not name the buffer.
  code = clEnqueueMigrateMemObjects(queue(), 1, &buffer, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0,
                                    nullptr, nullptr);
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
  Open();
  static_cast<OpenClStream&>(*current_stream())
      .staging()
      .Upload(Buffer(target), target.offset, static_cast<const char*>(source), bytes);
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
  Submit(opencl::CopyWork{Buffer(source), Buffer(target), static_cast<size_t>(source.offset),
                          static_cast<size_t>(target.offset), static_cast<size_t>(bytes)},
         where_);
}

void OpenClDevice::DoFill(DevicePtr target, uint8_t byte, int64_t bytes) {
  if (bytes <= 0) return;
  std::array<uint8_t, 16> pattern;
  pattern.fill(byte);
  const auto fill = [&](int64_t offset, int64_t count, size_t pattern_bytes) {
    if (count == 0) return;
    Submit(opencl::FillWork{Buffer(target), pattern, pattern_bytes, static_cast<size_t>(offset),
                            static_cast<size_t>(count)},
           where_);
  };
  // Some drivers write one pattern per work item, so a wide pattern covers as much as possible.
  const int64_t end = target.offset + bytes;
  const int64_t wide_begin = std::min((target.offset + 15) / 16 * 16, end);
  const int64_t wide_end = std::max(end / 16 * 16, wide_begin);
  fill(target.offset, wide_begin - target.offset, 1);
  fill(wide_begin, wide_end - wide_begin, 16);
  fill(wide_end, end - wide_end, 1);
}

void OpenClDevice::DoSynchronize() {
  current_stream()->Synchronize();
  StoreLateBinaries();
}

std::shared_ptr<Program> OpenClDevice::DoBuild(const ProgramText& text, bool use_cache) {
  std::call_once(driver_checked_, opencl::CheckDriver, this);
  std::shared_ptr<OpenClProgram> program = OpenClProgram::Make(this, text, use_cache);
  if (program->wants_store()) {
    std::lock_guard lock(late_mutex_);
    late_programs_.push_back(program);
    any_late_ = true;
  }
  return program;
}

void OpenClDevice::StoreLateBinaries() {
  // With further streams, some kernels that were launched on them may not have run yet. Binaries
  // that are not stored here are stored when their program is destroyed or the process ends.
  if (!any_late_ || has_streams()) return;
  std::lock_guard lock(late_mutex_);
  std::erase_if(late_programs_, [](const std::weak_ptr<OpenClProgram>& entry) {
    const std::shared_ptr<OpenClProgram> program = entry.lock();
    return program == nullptr || program->StoreAfterWait();
  });
  any_late_ = !late_programs_.empty();
}

}  // namespace caffe
