// Launches: read-only arguments are refused, and a launch allocates no heap memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/memory/blob.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace {

thread_local int64_t allocations = 0;

void* Allocate(size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t& nothrow) noexcept {
  return operator new(bytes, nothrow);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace caffe {
namespace {

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::unique_ptr<Kernel> ReLUForward(Device* device) {
  return ProgramBuilder(device, "relu").Body("neuron/relu").Build()->CreateKernel("relu_forward");
}

class LaunchTest : public testing::TestWithParam<Device*> {
 protected:
  Device* device_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(Devices, LaunchTest, testing::ValuesIn(TestDevices()),
                         [](const auto& info) {
                           std::string name = info.param->info().id;
                           for (char& c : name) c = c == ':' ? '_' : c;
                           return name;
                         });

TEST_P(LaunchTest, AnOutputThatIsOnlyReadableIsRefused) {
  Blob<float> x(device_, {16}), y(device_, {16});
  const auto kernel = ReLUForward(device_);
  EXPECT_EQ(MessageOf([&] { kernel->Launch(16, {16, x.Data(), y.MutableData(), 1.0}); }), "");
  const uint64_t version = y.data_version();
  for (const KernelArgument& output : {y.Data(), y.Diff(), KernelArgument(y.device_data() + 0)}) {
    const std::string message = MessageOf([&] { kernel->Launch(16, {16, x.Data(), output, 1.0}); });
    EXPECT_TRUE(Holds(message, "kernel relu_forward: argument 2 (y) is written"));
    EXPECT_TRUE(Holds(message, "MutableData()"));
  }
  EXPECT_EQ(y.data_version(), version);
  // A writable pointer may be read.
  EXPECT_EQ(MessageOf([&] {
              kernel->Launch(16, {16, y.MutableData(), x.MutableDiff(), 1.0});
            }),
            "");
}

TEST_P(LaunchTest, CopiesDoNotWriteToReadOnlyMemory) {
  Blob<float> x(device_, {16}), y(device_, {16});
  const float values[16] = {};
  const DevicePtr from = x.device_data(), to = y.device_data() + 4;
  EXPECT_TRUE(Holds(MessageOf([&] { device_->Upload(to, values, 4); }),
                    "Upload cannot write to a read-only"));
  EXPECT_TRUE(
      Holds(MessageOf([&] { device_->Copy(to, from, 4); }), "Copy cannot write to a read-only"));
  EXPECT_TRUE(
      Holds(MessageOf([&] { device_->Fill(to, 0, 4); }), "Fill cannot write to a read-only"));
  EXPECT_THROW(to.writable_address(), Error);
  device_->Copy(y.mutable_device_data(), from, 4);
}

TEST(LaunchCostTest, AWarmLaunchAllocatesNothing) {
  NullDevice null;
  for (Device* device : {Runtime::Get().cpu(), static_cast<Device*>(&null)}) {
    Blob<float> x(device, {64}), y(device, {64});
    const auto kernel = ReLUForward(device);
    const auto launch = [&] { kernel->Launch(64, {64, x.Data(), y.MutableData(), 0.5}); };
    launch();
    const int64_t before = allocations;
    for (int i = 0; i < 10; ++i) launch();
    EXPECT_EQ(allocations, before) << device->info().id;
    const auto probe = std::make_unique<int>(1);
    EXPECT_EQ(allocations, before + 1) << "this test's operator new is not in use";
  }
}

TEST(KernelArgumentsTest, MoreThanTheyHoldIsAnError) {
  KernelArguments arguments{1, 2.5};
  for (size_t i = 2; i < KernelArguments::kCapacity; ++i) arguments.push_back(int64_t(i));
  EXPECT_EQ(arguments.size(), KernelArguments::kCapacity);
  EXPECT_EQ(arguments[39].integer, 39);
  EXPECT_EQ(arguments[1].real, 2.5);
  EXPECT_THROW(arguments.push_back(1), Error);
}

}  // namespace
}  // namespace caffe
