// Every kernel that a device can launch is launched by `caffe device_query --self-test`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/launch_record.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/library/multiplexer.hpp"
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

bool Everywhere(const Device&) { return true; }
bool OnCuda(const Device& device) { return device.info().id.starts_with("cuda"); }

const std::vector<Exception>& Exceptions() {
  static const std::vector<Exception> all{
      // MatrixConvolutionLibrary and FloatProduct (library/generated/matrix_libraries.cpp) compute
      // floats, and ask for channels last, only if DeviceInfo::matrix is set.
      {"matrix units",
       [](const Device& device) { return !device.info().matrix; },
       {"blas/vector_matrix", "conv/depthwise_last", "conv/matrix_convolution", "conv/pack_matrix",
        "norm/lrn_channels_last", "norm/lrn_codes lrn_codes_channels", "pool/max_codes",
        "quant/window_columns", "quant/windows"}},
      {"matrix units; one LSTM in one launch needs them, too",
       [](const Device& device) { return !device.info().matrix; },
       {"neuron/lstm_steps", "neuron/lstm_steps_backward"}},
      {"matrix units, where no library of a vendor computes gradients",
       [](const Device& device) { return !device.info().matrix || OnCuda(device); },
       {"conv/matrix_gradient"}},
      // The only library with gradients that asks for channels last.
      {"cuDNN",
       [](const Device& device) { return !OnCuda(device); },
       {"conv/channels_last", "norm/channel_norm_spans"}},
      // Elsewhere a kernel that finishes a sum computes what follows it.
      {"libraries of vendors",
       [](const Device& device) { return CompilesSlowly(device) || device.info().id == "null"; },
       {"blas/epilogue bias_columns", "blas/epilogue bias_none"}},
      {"the number of boxes that other kernels chose: none, where kernels do not run",
       [](const Device& device) { return device.info().id == "null"; },
       {"box/lists box_rows", "box/lists box_regions"}},
      {"a type of a user where the system has no compiler", &Everywhere, {"quant/type_values"}},
      {"DynamicNetTest has it: a family in mode dynamic would round in codes in float kinds, too",
       &Everywhere,
       {"quant/dynamic"}},
      {"only tests launch it", &Everywhere, {"quant/requantize"}}};
  return all;
}

// Types of a body in which its kernels, or one of them, are not launched.
struct TypeException {
  std::string reason;
  bool (*where)(const Device& device);
  std::set<DataType> types;
  std::set<std::string> kernels;
};

bool OnHost(const Device& device) { return device.host_accessible(); }
bool LacksOneDnn(const Device& device) {
  ConvDescriptor d;
  d.in_channels = d.out_channels = d.group = 32;
  d.geometry.input = {9, 9};
  d.geometry.kernel = {3, 3};
  const std::vector<std::string> names = Multiplexer::ConvolutionLibraries(Runtime::Get().cpu(), d);
  return OnHost(device) && std::find(names.begin(), names.end(), "onednn") == names.end();
}

const std::vector<TypeException>& TypeExceptions() {
  static const std::vector<TypeException> all{
      {"parameters and their gradients are masters",
       &Everywhere,
       {kHalf, kBfloat16},
       {"blas/accumulate", "solver/adadelta", "solver/adagrad", "solver/adam", "solver/gradient",
        "solver/gradient_groups", "solver/loss_seed", "solver/nesterov", "solver/rmsprop",
        "solver/sgd"}},
      {"the type of Winograd's algorithm on devices",
       &Everywhere,
       {kHalf, kBfloat16, kDouble},
       {"conv/small_windows"}},
      {"CLBlast has float and double only",
       [](const Device& device) { return device.has_groups() && !OnCuda(device); },
       {kHalf, kBfloat16},
       {"blas/epilogue bias_columns", "blas/epilogue bias_none"}},
      {"oneDNN asks for channels last, but has no double", &OnHost, {kDouble}, {"blas/transpose"}},
      {"without oneDNN no library asks for channels last",
       &LacksOneDnn,
       {kFloat, kHalf, kBfloat16},
       {"blas/transpose"}}};
  return all;
}

bool IsNamed(const std::set<std::string>& kernels, const std::string& body,
             const std::string& kernel) {
  return kernels.count(body) > 0 || kernels.count(body + " " + kernel) > 0;
}

bool IsException(const std::string& body, const std::string& kernel, const Device& device) {
  return std::any_of(Exceptions().begin(), Exceptions().end(), [&](const Exception& exception) {
    return IsNamed(exception.kernels, body, kernel) && exception.where(device);
  });
}

bool IsTypeException(const std::string& body, const std::string& kernel, DataType type,
                     const Device& device) {
  return std::any_of(TypeExceptions().begin(), TypeExceptions().end(),
                     [&](const TypeException& exception) {
                       return IsNamed(exception.kernels, body, kernel) &&
                              exception.types.count(type) > 0 && exception.where(device);
                     });
}

// The kernels that a self-test in these types did not launch on the device although it can, and the
// exceptions that it launched.
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
        in.insert(launch.types.out);
      }
      if (IsException(body, kernel.name, device)) {
        if (any) faults += name + " is launched, but it is in the list of exceptions\n";
        continue;
      }
      if (!RunsOn(body, kernel.name, host)) continue;
      if (!any) faults += name + " is not launched\n";
      for (const DataType type : types) {
        const bool has = std::count(body_types.begin(), body_types.end(), type) > 0;
        // Quantized types have no gradient.
        const bool gradient = kernel.name.find("_backward") != std::string::npos;
        if (!any || !has || (gradient && type.is_quantized())) continue;
        const bool exception = IsTypeException(body, kernel.name, type, device);
        if (in.count(type) > 0 && exception) {
          faults +=
              name + " is launched in " + type.name() + ", but that is in the list of exceptions\n";
        } else if (in.count(type) == 0 && !exception) {
          faults += name + " is not launched in " + type.name() + "\n";
        }
      }
    }
  }
  return faults;
}

bool IsShimmed() { return std::getenv("CAFFE_SHIM") != nullptr; }
bool RunsEveryType() { return std::getenv("CAFFE_TEST_EVERY_TYPE") != nullptr; }

// PoCL takes a minute or more for the programs of all types.
std::vector<DataType> TypesOf(const Device& device) {
  if (CompilesSlowly(device) && !RunsEveryType()) return {kFloat, kQuant8};
  std::vector<DataType> types = FloatTypes();
  if (!device.info().fp64) std::erase(types, DataType(kDouble));
  types.insert(types.end(), {kQuant8, kQuant16});
  return types;
}

TEST(SelfTestKernelsTest, EveryKernelIsLaunched) {
  RecordLaunches();
  for (Device* device : TestDevices()) {
    if (IsShimmed() && OnHost(*device)) continue;  // as without the shim
    const std::vector<DataType> types = TypesOf(*device);
    SelfTest(device, types, [](const SelfTestRow& row) {
      EXPECT_TRUE(row.passed) << row.device << " " << row.type << " " << row.family << ": "
                              << row.message;
    });
    EXPECT_EQ(Faults(*device, types, RecordedLaunches()), "") << device->info().id;
  }
}

// A device with matrix units, which runs nothing: its results are wrong, but the libraries choose
// the kernels of such a device.
TEST(SelfTestKernelsTest, EveryKernelForMatrixUnitsIsLaunched) {
  NullDevice device("cuda");
  ASSERT_TRUE(device.info().matrix);
  std::vector<DataType> types = FloatTypes();
  types.insert(types.end(), {kQuant8, kQuant16});
  RecordLaunches();
  SelfTest(&device, types, [](const SelfTestRow&) {});
  EXPECT_EQ(Faults(device, types, RecordedLaunches()), "");
}

// The same in a process where PoCL is shown as a GPU: with spans, and with the libraries of GPUs.
TEST(SelfTestKernelsTest, EveryKernelIsLaunchedOnAGpu) {
  const std::string shim = CAFFE_BINARY_DIR "/tests/libopencl_shim.so";
  const bool pocl = std::any_of(TestDevices().begin(), TestDevices().end(), [](Device* device) {
    return CompilesSlowly(*device) && device->info().driver.find("PoCL") != std::string::npos;
  });
  if (!pocl || IsShimmed() || !std::filesystem::exists(shim)) GTEST_SKIP() << "there is no PoCL";
  if (!RunsEveryType()) GTEST_SKIP() << "takes minutes: CAFFE_TEST_EVERY_TYPE=1 runs it";
  if (std::getenv("ASAN_OPTIONS")) GTEST_SKIP() << "a sanitizer is preloaded, too";
  const TemporaryFolder folder;
  const std::string command = Concat("LD_PRELOAD='", shim, "' CAFFE_SHIM=type=gpu '",
                                     std::filesystem::read_symlink("/proc/self/exe").string(),
                                     "' --gtest_filter=SelfTestKernelsTest.EveryKernelIsLaunched >",
                                     folder / "log", " 2>&1");
  EXPECT_EQ(0, std::system(command.c_str())) << folder.Get("log");
}

}  // namespace
}  // namespace caffe
