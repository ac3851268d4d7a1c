#include "caffe/device/runtime.hpp"

#include <gtest/gtest.h>

#include <string>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

// CUDA first, then OpenCL's GPUs, then other OpenCL devices; each found by number and by name.
TEST(RuntimeTest, NumbersAndNamesAreThoseOfTheList) {
  Runtime& runtime = Runtime::Get();
  int last = 0;
  for (size_t i = 0; i < runtime.devices().size(); ++i) {
    Device* device = runtime.devices()[i];
    const DeviceInfo& info = device->info();
    const int number = static_cast<int>(i);
    EXPECT_EQ(runtime.IndexOf(device), number);
    EXPECT_EQ(runtime.DeviceByIndex(number), device);
    EXPECT_EQ(runtime.DeviceByName(std::to_string(number)), device);
    EXPECT_EQ(runtime.DeviceByName(info.id), device);
    const int kind = info.backend == "cuda" ? 0 : info.is_cpu_type ? 2 : 1;
    EXPECT_GE(kind, last) << info.id;
    last = kind;
  }
  for (Device* device : {runtime.cpu(), runtime.null_device()}) {
    EXPECT_EQ(runtime.IndexOf(device), -1);
    EXPECT_EQ(runtime.DeviceByName(device->info().id), device);
  }
  EXPECT_EQ(runtime.DeviceByIndex(-1), runtime.cpu());
  Device* best = runtime.BestDevice();
  const auto& all = runtime.devices();
  EXPECT_THROW(BackendNamed("cudo"), Error);
  EXPECT_EQ(best, !all.empty() && !all[0]->info().is_cpu_type ? all[0] : runtime.cpu());
}

TEST(RuntimeTest, ADeviceThatIsNotThereIsAnErrorThatListsWhatIs) {
  Runtime& runtime = Runtime::Get();
  const int behind = static_cast<int>(runtime.devices().size());
  for (const std::string& name : {std::string("cuda:99"), std::string("opencl:99"),
                                  std::string("gpu"), std::to_string(behind), std::string("-2")}) {
    try {
      runtime.DeviceByName(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("cpu"), std::string::npos) << text;
      for (Device* device : runtime.devices()) {
        EXPECT_NE(text.find(device->info().id), std::string::npos) << text;
      }
    }
  }
}

}  // namespace
}  // namespace caffe
