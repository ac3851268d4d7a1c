// Every file of kernels/ in every type that its first line names, compiled by every OpenCL device.
// For CUDA, nvrtc_test.cpp has the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/register_type.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/kernel_texts.hpp"
#include "support/plain_kernels.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::vector<Device*> OpenClDevices() {
  std::vector<Device*> devices;
  for (Device* device : Runtime::Get().devices()) {
    if (device->backend() == "opencl") devices.push_back(device);
  }
  return devices;
}

bool NamesBfloat16(const TypeTriple& types) {
  return types.compute == kBfloat16 || types.in == kBfloat16 || types.out == kBfloat16;
}

class EveryBodyOnOpenCl : public testing::TestWithParam<std::string> {};

TEST_P(EveryBodyOnOpenCl, Builds) {
  if (OpenClDevices().empty()) GTEST_SKIP() << "no OpenCL device";
  const PlainKernels plain;
  const std::string& path = GetParam();
  int built = 0;
  for (Device* device : OpenClDevices()) {
    // As devices run them: with FOLD parameters folded. Tests of operators launch the other form.
    for (const ProgramText& text : KernelTexts("opencl", path, true)) {
      if (!device->info().fp64 && text.source.find("CAFFE_FP64") == 0) continue;
      // A text in bfloat16 is that in half with other words for LOAD and STORE, which
      // ConversionTest runs.
      if (CompilesSlowly(*device) && NamesBfloat16(text.types)) continue;
      try {
        EXPECT_TRUE(device->Build(text));
        ++built;
      } catch (const Error& error) {
        ADD_FAILURE() << text.name << ": " << error.what();
      }
    }
  }
  EXPECT_GT(built, 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryBodyOnOpenCl, testing::ValuesIn(BodiesForDevices()),
                         [](const auto& info) { return BodyName(info.param); });

// The same in types of users, each body in one of them: of texts, of a table, of four bytes,
// or of half a byte with a scale.
TEST_P(EveryBodyOnOpenCl, BuildsInTypesOfUsers) {
  if (OpenClDevices().empty()) GTEST_SKIP() << "no OpenCL device";
  const PlainKernels plain;
  const DataType table = RegisterType("text_fixed10", 10, [](uint32_t code) {
    return static_cast<float>(static_cast<int>(code ^ 512) - 512) / 32;
  });
  const DataType wide = RegisterType("text_float24", 24, "small_float_value(code, 8, 15, 1)",
                                     "small_float_code(v, 8, 15, 1)");
  const DataType packed =
      RegisterType("text_packed4", 4, "small_float_value(code, 2, 1, 0)",
                   "small_float_code(v, 2, 1, 0)", {.scaled = true, .packed = true});
  const DataType type =
      std::array{table, DataTypeByName("fp8_e4m3"), wide, packed}[GetParam().size() % 4];
  for (const ProgramText& text : CustomTexts("opencl", GetParam(), type)) {
    for (Device* device : OpenClDevices()) {
      try {
        EXPECT_TRUE(device->Build(text));
      } catch (const Error& error) {
        ADD_FAILURE() << text.name << ": " << error.what();
      }
    }
  }
}

// CAFFE_KERNELS reads kernels/ from disk, and a mistake is shown where it was made.
TEST(CompileErrorTest, NamesTheFileTheLineAndTheKernel) {
  if (OpenClDevices().empty()) GTEST_SKIP() << "no OpenCL device";
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::path(testing::TempDir()) / Concat("caffe_kernels_", static_cast<int>(getpid()));
  fs::create_directories(folder / "test");
  fs::copy(fs::path(CAFFE_SOURCE_DIR) / "kernels", folder, fs::copy_options::recursive);
  std::ofstream(folder / "test" / "broken.h") << "//! types: float\n"
                                                 "KERNEL(whole, ARG(i64, n), OUT(MOtype, y)) {\n"
                                                 "  FOR_EACH(i, n) STORE(MOtype, y, i, 1);\n"
                                                 "}\n"
                                                 "KERNEL(broken, ARG(i64, n), IN(MItype, x),\n"
                                                 "       OUT(MOtype, y)) {\n"
                                                 "  FOR_EACH(i, n) {\n"
                                                 "    STORE(MOtype, y, i, nowhere);\n"
                                                 "  }\n"
                                                 "}\n";
  setenv("CAFFE_KERNELS", folder.c_str(), 1);
  for (Device* device : OpenClDevices()) {
    try {
      device->Build(ProgramBuilder(device, "broken").Types(kHalf).Body("test/broken").Text(),
                    false);
      ADD_FAILURE() << "it was built";
    } catch (const Error& error) {
      for (const char* part : {"kernels/test/broken.h", "nowhere", "broken half",
                               ">     8 |     STORE(MOtype, y, i, nowhere);"}) {
        EXPECT_TRUE(Holds(error.what(), part));
      }
    }
  }
  unsetenv("CAFFE_KERNELS");
  fs::remove_all(folder);
  EXPECT_THROW(KernelText("test/never_there"), Error);
}

}  // namespace
}  // namespace caffe
