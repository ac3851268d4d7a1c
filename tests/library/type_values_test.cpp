#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/core/type_functions.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/register_type.hpp"
#include "caffe/device/runtime.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {
namespace {

// Without a compiler a device computes the texts; the values are the same.
TEST(TypeValuesTest, DevicesComputeTextsWithoutACompiler) {
  if (Runtime::Get().devices().empty()) GTEST_SKIP() << "no OpenCL or CUDA device";
  const ScopedVariable no_compiler("CAFFE_CXX", "/nonexistent/c++");
  // The comment keeps values of an earlier run in the program cache from being found.
  const std::string comment = Concat(" /* ", getpid(), " */");
  const DataType type =
      RegisterType("e4m3_by_device", 8, "small_float_value(code, 4, 3, 0)" + comment,
                   "small_float_code(v, 4, 3, 0)" + comment);
  const ValueTable &table = TableOf(type), &other = TableOf(DataTypeByName("fp8_e4m3"));
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = table.Value(code), expected = other.Value(code);
    EXPECT_TRUE(std::memcmp(&value, &expected, 4) == 0 || (value != value && expected != expected));
  }
  ASSERT_EQ(table.steps().size(), other.steps().size());
  for (size_t i = 0; i < table.steps().size(); ++i) {
    EXPECT_EQ(table.steps()[i].bits, other.steps()[i].bits);
    EXPECT_EQ(table.steps()[i].code, other.steps()[i].code);
  }
}

// Compilers of devices do not say that a function does not return.
TEST(TypeValuesTest, WithoutACompilerFunctionsThatDoNotReturnAreFound) {
  if (Runtime::Get().devices().empty()) GTEST_SKIP() << "no OpenCL or CUDA device";
  const ScopedVariable no_compiler("CAFFE_CXX", "/nonexistent/c++");
  const auto message = [](int bits, const char* to, const char* from) {
    try {
      RegisterType("no_return", bits, to, from);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const char* const to = "(float)code";
  const char* const from = "v > 0 ? (v < 255.0f ? (u32)v : 255u) : 0u";
  for (const int bits : {8, 20}) {
    EXPECT_NE(message(bits, to, "if (v > 3.0f) return 1u; // nothing else")
                  .find("'no_return': from_float does not return a value on each path: none for"),
              std::string::npos);
    EXPECT_NE(message(bits, "if (code < 9u) return (float)code;", from)
                  .find("'no_return': to_float does not return a value on each path: none for"),
              std::string::npos);
    EXPECT_NE(message(bits, to, "/* nothing */").find("'no_return': its texts do not compile by"),
              std::string::npos);
  }
}

// Types without a table, too. The CPU cannot run nets in them.
TEST(TypeValuesTest, DevicesComputeFunctionsWithoutACompiler) {
  if (Runtime::Get().devices().empty()) GTEST_SKIP() << "no OpenCL or CUDA device";
  const ScopedVariable no_compiler("CAFFE_CXX", "/nonexistent/c++");
  const std::string comment = Concat(" /* ", getpid(), " */");
  const DataType type =
      RegisterType("float24_by_device", 24, "small_float_value(code, 8, 15, 1)" + comment,
                   "small_float_code(v, 8, 15, 1)" + comment);
  const float values[] = {1, -2.5f, 1e-40f, 3.0001f};
  uint32_t codes[4];
  float back[4];
  FunctionsOf(type).Codes(values, codes, 4);
  FunctionsOf(type).Values(codes, back, 4);
  EXPECT_EQ(codes[0], 0x3f8000u);
  EXPECT_EQ(codes[1], 0xc02000u);
  EXPECT_EQ(codes[2], 0x000117u);
  EXPECT_EQ(codes[3], 0x404002u);
  EXPECT_EQ(back[1], -2.5f);
  EXPECT_EQ(FunctionsOf(type).host(), nullptr);
  try {
    ProgramBuilder(Runtime::Get().cpu(), "convert")
        .Types({kFloat, kFloat, type})
        .Body("quant/convert")
        .Build()
        ->CreateKernel("convert");
    FAIL() << "the CPU has no functions to call";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'float24_by_device' has 24 bits"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace caffe
