#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "caffe/core/process_mark.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/opencl/opencl_api.hpp"
#include "caffe/device/opencl/opencl_command_buffer.hpp"
#include "caffe/device/opencl/opencl_record.hpp"
#include "caffe/device/opencl/opencl_stream.hpp"

namespace caffe {

class OpenClProgram;

// One device of one OpenCL platform. Its context is created at the first use: the context of a GPU
// costs memory, and most processes use only one of the visible devices. A DevicePtr's handle is a
// cl_mem.
class OpenClDevice : public Device {
 public:
  OpenClDevice(DeviceInfo info, cl_platform_id platform, cl_device_id id);
  ~OpenClDevice() override;

  Stream* default_stream() override;
  // Throws while the calling thread records: calls of libraries cannot be recorded.
  void* native_stream() override;
  bool can_capture() const override { return true; }

  cl_device_id id() const { return id_; }
  cl_context context();
  cl_command_queue queue();  // of the calling thread's stream
  opencl::Handle<cl_command_queue> MakeQueue(cl_command_queue_properties properties = 0);
  // Queues for branches of graphs; each graph waits for what it has enqueued on them.
  cl_command_queue BranchQueue(size_t index);
  // The commands that the calling thread records; null if it does not record.
  opencl::Record* record();
  // Held while kernels of records are made and get their arguments, and while records are enqueued.
  // A program in which two threads recorded ended on NVIDIA's driver; the cause is not known.
  std::mutex& record_mutex() { return record_mutex_; }
  // Enqueues the work on the calling thread's stream, or records it. `keeps` is what recorded work
  // uses.
  void Submit(const opencl::Work& work, const std::string& where,
              std::shared_ptr<const void> keeps = nullptr);
  // Null if the driver has no command buffers.
  const opencl::CommandBufferFunctions* command_buffers() const {
    return command_buffers_ ? &*command_buffers_ : nullptr;
  }
  // "opencl:0 (NVIDIA H200)", for messages.
  const std::string& where() const { return where_; }
  // Identifies this device and its compiler in the program cache.
  const std::string& identity() const { return identity_; }
  // PoCL compiles a kernel at its first launch and fixes a program's binary when it is first
  // queried, so the binary is queried after the launches.
  bool takes_binary_late() const { return takes_binary_late_; }
  // Expires when the device is destroyed; for destructors of objects that may outlive it.
  std::weak_ptr<void> alive() const { return alive_; }

 protected:
  void* DoAllocate(int64_t bytes) override;
  void DoFree(void* handle) noexcept override;
  void DoUpload(DevicePtr target, const void* source, int64_t bytes) override;
  void DoDownload(void* target, DevicePtr source, int64_t bytes) override;
  void DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) override;
  void DoFill(DevicePtr target, uint8_t byte, int64_t bytes) override;
  void DoSynchronize() override;
  std::unique_ptr<Stream> DoCreateStream() override;
  std::shared_ptr<Program> DoBuild(const ProgramText& text, bool use_cache) override;
  Stream* DoBeginCapture() override;
  std::unique_ptr<Graph> DoEndCapture(bool keep) override;
  bool DoOrderAfter(std::span<const int> pieces) override;

 private:
  // Creates the context at the first call. Throws in a process that was forked after the device was
  // found.
  void Open();
  // Call this right after waiting for the calling thread's stream.
  void StoreLateBinaries();
  // When the process ends: stores the binaries of programs that still exist.
  static void FlushAll() noexcept;
  void Flush() noexcept;

  const cl_platform_id platform_;
  const cl_device_id id_;
  const std::string where_;
  const ProcessMark made_in_;
  std::string identity_;
  bool takes_binary_late_ = false;
  std::shared_ptr<void> alive_ = std::make_shared<char>();

  std::mutex open_mutex_;
  std::atomic<bool> open_{false};
  opencl::Handle<cl_context> context_;
  std::unique_ptr<OpenClStream> default_stream_;

  const std::optional<opencl::CommandBufferFunctions> command_buffers_;
  opencl::Record record_;  // of the thread that records
  std::unique_ptr<OpenClStream> capture_stream_;
  std::mutex branch_mutex_, record_mutex_;
  std::vector<opencl::Handle<cl_command_queue>> branch_queues_;

  std::once_flag driver_checked_;
  std::mutex late_mutex_;
  std::vector<std::weak_ptr<OpenClProgram>> late_programs_;
  std::atomic<bool> any_late_{false};
};

}  // namespace caffe
