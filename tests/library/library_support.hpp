#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/layout.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"
#include "caffe/library/multiplexer.hpp"

namespace caffe::test {

// The CPU and every device that is there.
inline std::vector<Device*> AllDevices() {
  std::vector<Device*> devices{Runtime::Get().cpu()};
  for (Device* device : Runtime::Get().devices()) devices.push_back(device);
  return devices;
}

// Device memory that goes with the test.
class Array {
 public:
  Array(Device* device, DataType type, const std::vector<double>& values)
      : device_(device), type_(type), count_(values.size()) {
    std::vector<char> bytes(count_ * type.bytes());
    ConvertElements(kDouble, values.data(), type, bytes.data(), count_);
    pointer_ = device->Allocate(std::max<size_t>(bytes.size(), 1), "a test");
    if (count_ > 0) device->Upload(pointer_, bytes.data(), bytes.size());
  }
  ~Array() { device_->Free(pointer_); }
  Array(const Array&) = delete;
  std::vector<double> Read() const {
    std::vector<char> bytes(count_ * type_.bytes());
    std::vector<double> values(count_);
    device_->Download(bytes.data(), pointer_, bytes.size());
    ConvertElements(type_, bytes.data(), kDouble, values.data(), count_);
    return values;
  }
  operator DevicePtr() const { return pointer_; }

 private:
  Device* device_;
  DataType type_;
  size_t count_;
  DevicePtr pointer_;
};

// Memory of a test's own, at least one byte.
class Bytes {
 public:
  Bytes(Device* device, int64_t bytes)
      : device_(device), pointer_(device->Allocate(std::max<int64_t>(bytes, 1), "a test")) {
    // The content of an operator's workspace must not matter.
    device->Fill(pointer_, 0x7f, std::max<int64_t>(bytes, 1));
  }
  ~Bytes() { device_->Free(pointer_); }
  Bytes(const Bytes&) = delete;
  operator DevicePtr() const { return pointer_; }

 private:
  Device* device_;
  DevicePtr pointer_;
};

// The objects that the caller of an operator owns: its workspace and the prepared weights.
class Memory {
 public:
  Memory(Device* device, Operator* op)
      : device_(device),
        op_(op),
        workspace_(device, op->workspace_bytes() > 0 ? kBegin + op->workspace_bytes() : 0) {}
  DevicePtr workspace() const {
    return op_->workspace_bytes() > 0 ? DevicePtr(workspace_) + kBegin : DevicePtr();
  }
  DevicePtr Prepare(DevicePtr weights) {
    if (op_->prepared_bytes() == 0) return {};
    prepared_ = std::make_unique<Bytes>(device_, op_->prepared_bytes());
    op_->Prepare(weights, *prepared_);
    return *prepared_;
  }
  // The arguments, completed.
  GemmArguments operator()(GemmArguments arguments) {
    const auto weights = static_cast<GemmOp*>(op_)->descriptor().weights();
    arguments.workspace = workspace();
    if (weights == GemmDescriptor::Weights::kA) arguments.prepared = Prepare(arguments.a);
    if (weights == GemmDescriptor::Weights::kB) arguments.prepared = Prepare(arguments.b);
    return arguments;
  }
  template <class Arguments> Arguments operator()(Arguments arguments) {
    arguments.workspace = workspace();
    if (arguments.weights) arguments.prepared = Prepare(arguments.weights);
    return arguments;
  }

 private:
  // The workspace is a part of a buffer.
  static constexpr int64_t kBegin = 3 * 256;
  Device* device_;
  Operator* op_;
  Bytes workspace_;
  std::unique_ptr<Bytes> prepared_;
};

// One call with memory of its own.
inline void Run(GemmOp& op, Device* device, const GemmArguments& arguments) {
  Memory memory(device, &op);
  op.Run(memory(arguments));
  device->Synchronize();
}

// Multiples of 1/8 in [-2, 2]: exact in every float kind, and so are their products in float.
inline std::vector<double> Values(size_t count, uint32_t seed) {
  std::vector<double> values(count);
  uint32_t state = seed * 2654435761u + 12345u;
  for (double& value : values) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<int>((state >> 16) % 33) - 16) / 8.0;
  }
  return values;
}

// The stages of an epilogue, in double.
inline double Stages(const Epilogue& epilogue, double v, double residual = 0, double slope = 0) {
  for (const Epilogue::Stage& stage : epilogue.stages) {
    if (const auto* sum = std::get_if<ResidualSum>(&stage)) {
      v += sum->coefficient * residual;
      continue;
    }
    ElementFunction f = std::get<ElementFunction>(stage);
    if (f.kind == ElementFunction::Kind::kPReLU) f.a = slope;
    v = f.value(v);
  }
  return v;
}

inline double Tolerance(DataType type) {
  if (type == kDouble) return 1e-12;
  if (type == kHalf) return 1e-3;
  return type == kBfloat16 ? 8e-3 : 2e-6;
}

// cuDNN may transform float data (FFT, Winograd), which costs up to 3e-6 of the largest sum.
// clblast_half adds in half.
inline double Tolerance(const Device* device, const std::string& library, DataType type) {
  if (library == "clblast_half") return 1e-2;
  // `converted` may use cuDNN.
  const bool transforms =
      device->backend() == "cuda" && (library == "cudnn" || library == "converted");
  return transforms && type == kFloat ? 6e-6 : Tolerance(type);
}

// Libraries of CUDA that have several algorithms, and another one for each epilogue: their sums may
// differ in the last bits, and those of half kinds may be rounded before the epilogue.
inline bool ChoosesAlgorithms(const Device* device, const std::string& library) {
  if (device->backend() != "cuda") return false;
  return library == "cudnn" || library == "cublaslt" || library == "converted";
}

// The same for gradients of weights, which have type `master`. cuDNN may store them in the type of
// x, `in`, before they are added.
inline double GradientTolerance(const Device* device, const std::string& library, DataType in,
                                DataType master) {
  const bool rounds = device->backend() == "cuda" &&
                      (library == "cudnn" || library == "converted" || library == "channels_last");
  return std::max(Tolerance(device, library, master), rounds ? Tolerance(device, library, in) : 0);
}

// Relative to the largest value.
inline void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                       double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 1;
  for (double value : expected) largest = std::max(largest, std::fabs(value));
  int shown = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::fabs(actual[i] - expected[i]) <= tolerance * largest) continue;
    ADD_FAILURE() << what << ": element " << i << " of " << actual.size() << " is " << actual[i]
                  << ", expected " << expected[i];
    if (++shown == 3) return;
  }
}

}  // namespace caffe::test
