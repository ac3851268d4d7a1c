#pragma once

#include <memory>
#include <string>

#include "caffe/device/cuda/cuda_context.hpp"
#include "caffe/device/program.hpp"

namespace caffe {
class Device;
}

namespace caffe::cuda {

// A module loaded by the driver.
class CudaProgram final : public Program, public std::enable_shared_from_this<CudaProgram> {
 public:
  // Loads machine code or PTX. Throws if the driver refuses it.
  CudaProgram(Device* device, std::shared_ptr<CudaContext> context, const ProgramText& text,
              const std::string& binary);
  ~CudaProgram() override;
  std::unique_ptr<Kernel> CreateKernel(const std::string& name) override;

 private:
  Device* device_;
  std::shared_ptr<CudaContext> context_;
  ProgramText text_;  // without its source
  CUmodule module_ = nullptr;
};

}  // namespace caffe::cuda
