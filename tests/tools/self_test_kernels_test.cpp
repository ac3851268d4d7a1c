// Every kernel that a device can launch is launched by `caffe device_query --self-test`.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/launch_record.hpp"
#include "commands/self_test.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/kernel_texts.hpp"

namespace caffe {
namespace {

// Kernels that the self-test does not launch, by `body` or `body kernel`.
struct Exception {
  std::string reason;
  bool (*where)(const Device& device);
  std::set<std::string> kernels;
};

const std::vector<Exception>& Exceptions() {
  static const std::vector<Exception> all{
      // MatrixConvolutionLibrary and FloatProduct (library/generated/matrix_libraries.cpp) compute
      // floats, and ask for channels last, only if DeviceInfo::matrix is set.
      {"matrix units", [](const Device& device) { return !device.info().matrix; },
       {"blas/vector_matrix", "conv/depthwise_last", "conv/matrix_convolution", "conv/pack_matrix",
        "norm/lrn_channels_last", "norm/lrn_codes lrn_codes_channels", "pool/max_codes",
        "quant/window_columns", "quant/windows"}},
      // The only library with gradients that asks for channels last.
      {"cuDNN", [](const Device& device) { return device.backend() != "cuda"; },
       {"conv/channels_last", "norm/channel_norm_spans"}},
      // Elsewhere a kernel that finishes a sum computes what follows it.
      {"libraries of vendors", &CompilesSlowly,
       {"blas/epilogue bias_columns", "blas/epilogue bias_none"}},
      {"on devices grouped experts have no gradient",
       [](const Device& device) { return device.has_groups(); },
       {"moe/gather moe_gather_backward"}},
      {"a type of a user where the system has no compiler", [](const Device&) { return true; },
       {"quant/type_values"}},
      {"only tests launch it", [](const Device&) { return true; }, {"quant/requantize"}}};
  return all;
}

bool IsException(const std::string& body, const std::string& kernel, const Device& device) {
  return std::any_of(Exceptions().begin(), Exceptions().end(), [&](const Exception& exception) {
    const bool named = exception.kernels.count(body) || exception.kernels.count(body + " " + kernel);
    return named && exception.where(device);
  });
}

// A type in which no kernel of the self-test can run, although its body has it.
bool IsImpossible(const std::string& kernel, DataType type) {
  return type.is_quantized() && kernel.find("_backward") != std::string::npos;
}

// What a self-test in these types should have launched on the device, or should not have.
std::string Faults(const Device& device, const std::vector<DataType>& types,
                   const std::set<LaunchedKernel>& launched) {
  std::string faults;
  const bool host = device.host_accessible();
  for (const std::string& body : KernelBodies()) {
    const std::vector<DataType> body_types = BodyTypes(body);
    for (const KernelSignature& kernel : ParseKernelHeads(body, KernelText(body))) {
      const std::string name = Concat(kernel.name, " (", body, ")");
      std::set<DataType> in;
      bool any = false;
      for (const LaunchedKernel& launch : launched) {
        if (launch.device != device.info().id || launch.kernel != kernel.name) continue;
        any = true;
        in.insert(launch.types.compute);
        in.insert(launch.types.in);
      }
      if (IsException(body, kernel.name, device)) {
        if (any) faults += name + " is launched: it is no exception\n";
        continue;
      }
      if (!RunsOn(body, kernel.name, host)) continue;
      if (!any) faults += name + " is not launched\n";
      for (const DataType type : types) {
        const bool has = std::count(body_types.begin(), body_types.end(), type) > 0;
        if (any && has && !IsImpossible(kernel.name, type) && !in.count(type)) {
          faults += name + " is not launched in " + type.name() + "\n";
        }
      }
    }
  }
  return faults;
}

// The types that tests of the device run in.
std::vector<DataType> TypesOf(const Device& device) {
  std::vector<DataType> types{kQuant8, kQuant16};
  for (const DataType type : FloatTypes()) {
    const bool has = type != kDouble || device.info().fp64;
    if (has && (type == kFloat || IsTested(device, kDouble))) types.push_back(type);
  }
  return types;
}

TEST(SelfTestKernelsTest, EveryKernelIsLaunched) {
  RecordLaunches();
  for (Device* device : TestDevices()) {
    const std::vector<DataType> types = TypesOf(*device);
    SelfTest(device, types, [](const SelfTestRow& row) {
      EXPECT_TRUE(row.passed) << row.device << " " << row.type << " " << row.family << ": "
                              << row.message;
    });
    EXPECT_EQ(Faults(*device, types, RecordedLaunches()), "") << device->info().id;
  }
}

}  // namespace
}  // namespace caffe
