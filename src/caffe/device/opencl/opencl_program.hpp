#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "caffe/device/opencl/opencl_api.hpp"
#include "caffe/device/program.hpp"

namespace caffe {

class OpenClDevice;

// A program built from source, or from a binary of the program cache. Thread-safe. It may outlive
// its device, but then does nothing.
class OpenClProgram : public Program, public std::enable_shared_from_this<OpenClProgram> {
 public:
  // Throws with device, program, kernel, compiler log and source lines if the text does not build.
  static std::shared_ptr<OpenClProgram> Make(OpenClDevice* device, const ProgramText& text,
                                             bool use_cache);
  ~OpenClProgram() override;

  std::unique_ptr<Kernel> CreateKernel(const std::string& name) override;
  // A new object, whose arguments are not set.
  opencl::Handle<cl_kernel> MakeKernel(const std::string& name) const;

  const std::string& name() const { return text_.name; }
  const ProgramText& text() const { return text_; }  // without its source
  bool wide_index() const { return wide_index_; }

  // The binary of a new program is stored when all its kernels have been launched, when there was
  // no first launch for a while, or when the program is destroyed. The device calls StoreAfterWait
  // after each wait for its queue, until that returns true.
  bool wants_store() const { return !key_.empty(); }
  void NoteLaunch(const std::string& kernel);
  bool StoreAfterWait() noexcept;
  // Waits for the queue and stores the binary, if there is one to store.
  void StoreNow() noexcept;

 private:
  OpenClProgram(OpenClDevice* device, const ProgramText& text);

  bool Load(const std::string& binary, const std::string& options);
  static std::string BuildOptions(const std::string& options);
  // A body may omit kernels for some types (#if).
  void KeepExistingKernels();
  void Compile(const ProgramText& text, const std::string& refusal_key);
  [[noreturn]] void ThrowBuildFailure(const ProgramText& text, const std::string& reason,
                                      const std::string& log) const;
  std::string BuildLog() const;
  std::string Binary() const;  // throws
  void Store() noexcept;

  OpenClDevice* device_;
  const std::weak_ptr<void> device_alive_;
  const std::string where_, device_name_;
  ProgramText text_;
  bool wide_index_ = false;
  opencl::Handle<cl_program> program_;
  opencl::Handle<cl_command_queue> queue_;
  std::string build_log_;
  double build_seconds_ = 0;

  std::mutex mutex_;
  std::string key_;  // of the binary that is not stored yet; empty if there is none
  std::set<std::string> launched_;
  int waits_ = 0;  // since a kernel was launched for the first time
};

}  // namespace caffe
