#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/device/kernel.hpp"
#include "caffe/device/opencl/opencl_work.hpp"

namespace caffe {

class OpenClDevice;
class OpenClProgram;

// Each object has its own cl_kernel, so that nets do not overwrite each other's arguments. A
// pointer is passed as three arguments: memory object, offset in elements (i64), zero point (i32).
class OpenClKernel : public Kernel {
 public:
  // Throws if the compiled kernel takes other arguments than `signature`.
  OpenClKernel(OpenClDevice* device, std::shared_ptr<OpenClProgram> program,
               const KernelSignature& signature, opencl::Handle<cl_kernel> kernel);
  int64_t most_items() const override { return most_items_; }

 protected:
  void DoLaunch(const LaunchRange& range, const KernelArguments& arguments) override;
  void DoLaunchGroups(const LaunchGroups& groups, const KernelArguments& arguments) override;

 private:
  struct Slot {
    enum class Kind { kScalar, kFolded, kPointer } kind = Kind::kScalar;
    ScalarKind scalar = ScalarKind::kI64;
    int64_t fold = 0;
    int64_t element_bytes = 1;
  };

  void SetArguments(cl_kernel kernel, const KernelArguments& arguments) const;
  void SetArgument(cl_kernel kernel, cl_uint index, size_t size, const void* value,
                   size_t parameter) const;
  // A launch that is recorded keeps its arguments in a kernel of its own.
  void Submit(opencl::LaunchWork launch, const KernelArguments& arguments);

  OpenClDevice* opencl_device_;
  std::shared_ptr<OpenClProgram> program_;
  opencl::Handle<cl_kernel> kernel_;
  std::string where_;
  std::vector<Slot> slots_;  // one per declared parameter
  size_t group_size_ = 256;
  int64_t most_items_ = 0;
  bool launched_ = false;
};

// The bytes of an element of IN(type, …) or OUT(type, …).
int64_t StorageBytes(const std::string& type, const TypeTriple& types);

}  // namespace caffe
