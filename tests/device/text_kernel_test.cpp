// Kernels of texts that a caller gives: TextKernel on every device, and its texts for CUDA.
#include "caffe/device/text_kernel.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/nvrtc_compile.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/register_type.hpp"
#include "caffe/memory/blob.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

constexpr char kScale[] = R"(#include "epilogue/swish.h"
DEVICE_FN float product(float v, float w) { return v * w; }

KERNEL(scale, ARG(i64, rows), ARG(i64, columns), ARG(float, factor), IN(MItype, x),
       IN(f32, w), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    STORE(MOtype, y, r * columns + c,
          product(LOAD(MItype, x, r * columns + c), LOAD(f32, w, r)) * factor);
  }
}
SPAN_KERNEL(swish, ARG(i64, n), ARG(Acctype, beta), IN(MItype, x), OUT(MOtype, y)) {
  MAP1(n, MOtype, y, MItype, x, v, swish_value(v, beta))
}
)";

using Argument = TextKernel::Argument;

Argument Number(KernelArgument value) { return {value, "", 0, "a number"}; }
Argument In(const BlobBase& blob, int64_t needed = -1) {
  return {blob.Data(),           blob.type().word(), blob.count(),
          "blob " + blob.name(), blob.device(),      needed};
}
Argument Out(BlobBase& blob) {
  return {blob.MutableData(), blob.type().word(), blob.count(), "blob " + blob.name(),
          blob.device()};
}

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class TextKernelTest : public testing::TestWithParam<Device*> {
 protected:
  std::shared_ptr<BlobBase> Blob(DataType type, const std::vector<double>& values,
                                 const std::string& name = "x") {
    auto blob = MakeBlob(type, GetParam(), {static_cast<int64_t>(values.size())}, name);
    blob->SetData(values);
    return blob;
  }
};

TEST_P(TextKernelTest, ComputesInTheTypesOfItsArrays) {
  TextKernel scale("scale.h", kScale, "scale");
  EXPECT_EQ(scale.bounds(), (std::vector<std::string>{"rows", "columns"}));
  const auto w = Blob(kFloat, {1, -2}, "w");
  for (const DataType in : FloatTypes()) {
    for (const DataType out : FloatTypes()) {
      const auto x = Blob(in, {0, 1, 2, 3, 4, 5}), y = Blob(out, {9, 9, 9, 9, 9, 9}, "y");
      scale.Launch({Number(2), Number(3), Number(0.5), In(*x), In(*w, 2), Out(*y)});
      EXPECT_EQ(y->DataAsDouble(), (std::vector<double>{0, 0.5, 1, -3, -4, -5})) << in.name();
    }
  }
}

TEST_P(TextKernelTest, RefusesWhatDoesNotFit) {
  TextKernel scale("scale.h", kScale, "scale");
  const auto x = Blob(kFloat, {0, 1, 2, 3}), w = Blob(kFloat, {1, 2}, "w"),
             y = Blob(kHalf, {0, 0, 0, 0}, "y");
  const auto message = [&](const std::vector<Argument>& arguments,
                           const std::vector<int64_t>& size = {}) {
    return MessageOf([&] { scale.Launch(arguments, size); });
  };
  const Argument rows = Number(2), factor = Number(1.0);
  EXPECT_EQ(message({rows, rows, factor, In(*x), In(*w, 2), Out(*y)}, {2, 2}), "");
  EXPECT_NE(message({rows, rows, factor, In(*x), In(*w), Out(*y)})
                .find("scale.h, kernel scale: argument 4 (f32 w) is blob w of 2 elements, and the "
                      "kernel has a loop over 4"),
            std::string::npos);
  EXPECT_NE(
      message({rows, rows, factor, In(*x), In(*y), Out(*x)}).find("is blob y of f16, not f32"),
      std::string::npos);
  EXPECT_NE(message({rows, rows, factor, In(*x), In(*w, 2)}).find("the launch passes 5"),
            std::string::npos);
  EXPECT_NE(message({rows, In(*x), factor, In(*x), In(*w, 2), Out(*y)})
                .find("argument 1 (i64 columns) is a number, and the launch passes blob x"),
            std::string::npos);
  Argument read = In(*y);
  EXPECT_NE(message({rows, rows, factor, In(*x), In(*w, 2), read}).find("the pointer is read-only"),
            std::string::npos);
}

TEST_P(TextKernelTest, ComputesInTypesOfUsers) {
  TextKernel swish("scale.h", Concat("/* KERNEL(no,\n ARG(i64, n)) is a comment */\n", kScale),
                   "swish");
  for (const char* name : {"fp8_e5m2", "float10"}) {
    const auto x = Blob(DataTypeByName(name), {0, 1, -1, 4}), y = Blob(kFloat, {9, 9, 9, 9}, "y");
    swish.Launch({Number(4), Number(1.0), In(*x), Out(*y)});
    const std::vector<double> values = y->DataAsDouble();
    EXPECT_EQ(values[0], 0);
    EXPECT_NEAR(values[1], 0.731059, 1e-6);
    EXPECT_NEAR(values[2], -0.268941, 1e-6);
    EXPECT_NEAR(values[3], 3.928055, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TextKernelTest, testing::ValuesIn(TestDevices()),
                         [](const auto& info) {
                           std::string name = info.param->info().id;
                           for (char& c : name) c = c == ':' ? '_' : c;
                           return name;
                         });

TEST(TextKernelTexts, CompileForCudaInEveryType) {
  std::string why;
  if (!NvrtcAvailable(&why)) GTEST_SKIP() << why;
  NullDevice device("cuda");
  std::vector<DataType> types = FloatTypes();
  types.push_back(DataTypeByName("fp8_e4m3"));
  for (const DataType in : types) {
    for (const DataType out : types) {
      const DataType compute = in == kDouble || out == kDouble ? kDouble : kFloat;
      const std::string cubin = CompileCudaToCubin(ProgramBuilder(&device, "scale.h")
                                                       .Types({compute, in, out})
                                                       .Source("scale.h", kScale)
                                                       .Text(),
                                                   "sm_90");
      EXPECT_NE(cubin.find("swish"), std::string::npos) << in.name() << " " << out.name();
    }
  }
  const std::string message = MessageOf([&] {
    std::string text = kScale;
    text.replace(text.find("* factor"), 8, "* faktor");
    CompileCudaToCubin(ProgramBuilder(&device, "scale.h").Source("scale.h", text).Text(), "sm_90");
  });
  EXPECT_NE(message.find("scale.h(7)"), std::string::npos) << message;
}

}  // namespace
}  // namespace caffe
