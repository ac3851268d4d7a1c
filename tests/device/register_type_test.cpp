#include "caffe/device/register_type.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>

#include "caffe/core/error.hpp"
#include "caffe/core/type_functions.hpp"
#include "caffe/core/type_registry.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {
namespace {

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void ExpectMessage(const std::function<void()>& call, const std::string& part) {
  EXPECT_NE(MessageOf(call).find(part), std::string::npos) << MessageOf(call);
}

TEST(RegisterTypeTest, TextsGiveTheTableOfTheFormula) {
  const DataType type =
      RegisterType("fp6", 6, "small_float_value(code, 3, 2, 0)", "small_float_code(v, 3, 2, 0)");
  EXPECT_EQ(DataTypeByName("fp6"), type);
  EXPECT_EQ(type.bytes(), 1u);
  EXPECT_TRUE(type.is_float());
  const ValueTable& table = TableOf(type);
  EXPECT_EQ(table.Value(0x0c), 1);    // 2^(3 - 3)
  EXPECT_EQ(table.Value(0x1e), 24);   // 2^(7 - 3) 1.5: 1.75 is NaN
  EXPECT_EQ(table.Value(1), 0.0625);  // 2^(1 - 3) / 4
  EXPECT_EQ(table.Code(100), 0x1eu);
  EXPECT_EQ(table.Code(-1.1f), 0x2cu);
  EXPECT_TRUE(std::isnan(table.Value(table.Code(NAN))));
}

// Bodies of functions, and functions of the dialect.
TEST(RegisterTypeTest, BodiesMayHaveStatements) {
  const DataType type =
      RegisterType("log8", 8,
                   "const float e = (float)(i32)(code & 127u) - 64.0f;\n"
                   "const float size = exp_f32(e * 0.25f);\n"
                   "return code & 128u ? -size : size;",
                   "const float size = v < 0 ? -v : v;\n"
                   "const float e = log_f32(size) * 4.0f + 64.5f;\n"
                   "const u32 code = size != size || e < 0 ? 0u : e > 127.0f ? 127u : (u32)e;\n"
                   "return v < 0 ? code | 128u : code;");
  const ValueTable& table = TableOf(type);
  EXPECT_EQ(table.Value(64), 1);
  EXPECT_NEAR(table.Value(68), std::exp(1.0), 1e-6);
  for (uint32_t code = 1; code < 127; ++code) EXPECT_EQ(table.Code(table.Value(code)), code);
}

TEST(RegisterTypeTest, FunctionsRoundToNearestWithoutASecondOne) {
  const auto value = [](uint32_t code) {
    return static_cast<float>(static_cast<int8_t>(code)) / 16;
  };
  const DataType type = RegisterType("fixed8", 8, value);
  const ValueTable& table = TableOf(type);
  EXPECT_EQ(table.Code(1), 16u);
  EXPECT_EQ(table.Code(1.03125f), 16u);  // a tie: to the even code
  EXPECT_EQ(table.Code(1.09375f), 18u);  // another one
  EXPECT_EQ(table.Code(-100), 128u);
  EXPECT_EQ(table.Code(NAN), 0u);
  // Another rounding is another type.
  ExpectMessage([&] { RegisterType("fixed8", 8, value, [](float) { return 0u; }); },
                "exists and is another type");
  EXPECT_EQ(RegisterType("fixed8", 8, value), type);
}

TEST(RegisterTypeTest, RegisteringAgainReturnsTheSameType) {
  const char* const to = "(float)code";
  const char* const from = "v > 0 ? (v < 15.0f ? (u32)v : 15u) : 0u";
  const DataType type = RegisterType("again", 4, to, from);
  EXPECT_EQ(RegisterType("again", 4, to, from), type);
  ExpectMessage([&] { RegisterType("again", 5, to, from); }, "'again' exists and is another type");
  ExpectMessage([&] { RegisterType("half", 4, to, from); }, "'half' exists and is another type");
}

TEST(RegisterTypeTest, InvalidTypesAreErrors) {
  const char* const to = "(float)code";
  const char* const from = "v > 0 ? (v < 255.0f ? (u32)v : 255u) : 0u";
  ExpectMessage([&] { RegisterType("bad", 1, to, from); }, "2 to 32 bits, not 1");
  ExpectMessage([&] { RegisterType("bad", 33, to, from); }, "2 to 32 bits, not 33");
  ExpectMessage([&] { RegisterType("3d", 8, to, from); }, "cannot be named '3d'");
  ExpectMessage([&] { RegisterType("bad", 8, "", from); }, "needs two texts");
  ExpectMessage([&] { RegisterType("bad", 8, to, "300u"); }, "gives the code 300 for");
  ExpectMessage([&] { RegisterType("bad", 8, to, "as_u32(v) & 255u"); }, "must be monotonic");
  const std::string message = MessageOf([&] { RegisterType("bad", 8, "value_of(code)", from); });
  EXPECT_NE(message.find("'bad': its texts do not compile by"), std::string::npos) << message;
  EXPECT_NE(message.find("value_of"), std::string::npos) << message;
  EXPECT_NE(message.find("bad.to_float"), std::string::npos) << message;
  const auto failing = [](uint32_t) -> float { throw std::runtime_error("no value"); };
  EXPECT_THROW(RegisterType("bad", 8, failing), std::runtime_error);
  const auto code_itself = [](uint32_t code) { return static_cast<float>(code); };
  ExpectMessage([&] { RegisterType("bad", 17, code_itself); },
                "a type of functions has at most 16 bits, not 17; give to_float and from_float as");
  // The name stays free.
  EXPECT_NO_THROW(RegisterType("bad", 8, to, from));
}

// A function that returns nothing, or not on each path, is an error of the compiler; a value that
// does not come back is one that names it.
TEST(RegisterTypeTest, EachPathReturnsAndEachValueComesBack) {
  const char* const to = "(float)code";
  const char* const from = "v > 0 ? (v < 255.0f ? (u32)v : 255u) : 0u";
  for (const char* empty : {"/* return */", "if (v > 3.0f) return 1u;"}) {
    for (const int bits : {8, 20}) {
      ExpectMessage([&] { RegisterType("lossy", bits, to, empty); },
                    "'lossy': its texts do not compile");
    }
  }
  ExpectMessage([&] { RegisterType("lossy", 8, "/* return */", from); }, "on each path");
  ExpectMessage(
      [&] { RegisterType("lossy", 8, to, "0u"); },
      "'lossy': to_float of the code 1 is 1, for which from_float gives the code 0, which "
      "is 0; each value must come back");
  ExpectMessage([&] { RegisterType("lossy", 20, to, "v > 7.0f ? 7u : 0u"); },
                "to_float of the code 15 is 15, for which from_float gives the code 7");
  const auto value = [](uint32_t code) { return code == 3 ? 5 : static_cast<float>(code); };
  const auto floor = [](float v) { return v > 0 ? static_cast<uint32_t>(v < 2 ? v : 2) : 0u; };
  ExpectMessage([&] { RegisterType("lossy", 2, value, floor); },
                "to_float of the code 3 is 5, for which from_float gives the code 2, which is 2");
  // A code may be unused, and two codes may have one value.
  const auto three = [](uint32_t code) { return code == 3 ? NAN : static_cast<float>(code); };
  EXPECT_NO_THROW(RegisterType("lossless_a", 2, three, floor));
  const auto twice = [](uint32_t code) { return static_cast<float>(std::min(code, 2u)); };
  EXPECT_NO_THROW(RegisterType("lossless_b", 2, twice, floor));
}

// New memory has the code 0; rounding keeps the order of floats and depends on nothing else.
TEST(RegisterTypeTest, ZeroOrderAndStateAreChecked) {
  ExpectMessage(
      [] {
        RegisterType("unsound", 4, "(float)code - 8.0f",
                     "v < -8.0f ? 0u : v > 7.0f ? 15u : v == v ? (u32)(v + 8.5f) : 0u");
      },
      "'unsound': to_float of the code 0 is -8, but new memory has this code");
  for (const int bits : {4, 20}) {
    ExpectMessage(
        [&] {
          RegisterType("unsound", bits, "(float)code + 1.0f",
                       "v > 3.0f ? (v < 8.0f ? (u32)(v - 0.5f) : 7u) : 2u");
        },
        bits == 4 ? "each value must come back" : "'unsound'");
    ExpectMessage([&] { RegisterType("unsound", bits, "as_f32(code)", "as_u32(v) & 15u"); },
                  "'unsound'");
  }
  // Each value comes back, but some floats between 2 and 3 become 9.
  ExpectMessage(
      [] {
        RegisterType("unsound", 4, "(float)code",
                     "if (v > 2.25f && v < 2.75f) return 9u;\n"
                     "return v > 15.0f ? 15u : v > 0.0f ? (u32)v : 0u;");
      },
      "'unsound': from_float rounds 2.75 to 2, but floats below it to 9; it must be monotonic");
  ExpectMessage(
      [] {
        RegisterType(
            "unsound", 4, [](uint32_t code) { return code * 1.0f; },
            [](float v) { return v < 0    ? 1u
                                 : v > 15 ? 15u
                                          : (uint32_t)v; });
      },
      "'unsound': from_float");
  // Without a bound on the codes' changes, such functions would take all memory.
  ExpectMessage(
      [] {
        RegisterType("unsound", 4, "(float)code",
                     "static u32 calls = 0; return calls++ / 7u & 15u;");
      },
      "depend on nothing but the float");
}

// The program cache keeps the values, so that a second process needs no compiler. Here another name
// stands for the second process.
TEST(RegisterTypeTest, ValuesAreCached) {
  const char* const to = "(float)code * 0.5f";
  const char* const from = "v > 0 ? (v < 7.5f ? (u32)(v * 2.0f) : 15u) : 0u";
  const DataType first = RegisterType("cached_a", 4, to, from);
  const ScopedVariable failing("CAFFE_CXX", "/bin/false");
  const DataType second = RegisterType("cached_b", 4, to, from);
  EXPECT_NE(first, second);
  EXPECT_EQ(TableOf(second).values(), TableOf(first).values());
  EXPECT_EQ(TableOf(second).Code(2.2f), 4u);
  ExpectMessage([&] { RegisterType("cached_c", 4, to, "v > 3.0f ? 6u : 1u"); },
                "do not compile by /bin/false");
}

// Types without a table.
float ValueOf(DataType type, uint32_t code) {
  float value;
  FunctionsOf(type).Values(&code, &value, 1);
  return value;
}

uint32_t CodeOf(DataType type, float value) {
  uint32_t code;
  FunctionsOf(type).Codes(&value, &code, 1);
  return code;
}

// A float whose lower bits are cut off, with rounding to even.
DataType CutFloat(const std::string& name, int bits) {
  const std::string arguments = Concat("8, ", bits - 9, ", 1)");
  return RegisterType(name, bits, "small_float_value(code, " + arguments,
                      "small_float_code(v, " + arguments);
}

DataType Posit32() {
  return RegisterType("wide_posit32", 32, "posit_value(code, 32, 2)", "posit_code(v, 32, 2)");
}

// Two's complements in units of 2^-16.
DataType Fixed32() {
  return RegisterType("wide_fixed32", 32, "(float)(i32)code * 1.52587890625e-5f",
                      "const float s = v * 65536.0f + (v < 0.0f ? -0.5f : 0.5f);\n"
                      "return s >= 2147483648.0f    ? 0x7fffffffu\n"
                      "       : s <= -2147483648.0f ? 0x80000000u\n"
                      "       : v == v              ? (u32)(i32)s : 0u;");
}

TEST(WideTypeTest, CutFloatsRoundToEven) {
  for (const int bits : {19, 24}) {
    const DataType type = CutFloat(Concat("wide_float", bits), bits);
    EXPECT_EQ(type.bytes(), 4u);
    const int drop = 32 - bits;
    for (uint64_t step = 0; step < uint64_t{1} << 32; step += 65521) {
      const auto float_bits = static_cast<uint32_t>(step);
      const float value = std::bit_cast<float>(float_bits);
      const uint32_t code = CodeOf(type, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(ValueOf(type, code)));
        continue;
      }
      const uint32_t tie = (1u << (drop - 1)) - 1 + (float_bits >> drop & 1);
      const auto wanted = static_cast<uint32_t>((uint64_t{float_bits} + tie) >> drop);
      ASSERT_EQ(code, wanted) << value;
      ASSERT_EQ(std::bit_cast<uint32_t>(ValueOf(type, code)), wanted << drop) << value;
    }
  }
}

TEST(WideTypeTest, PositsOf32Bits) {
  const DataType type = Posit32();
  // The fields of a posit: a regime r, an exponent e and a fraction f are 2^(4 r + e) (1 + f).
  EXPECT_EQ(ValueOf(type, 0x40000000), 1);
  EXPECT_EQ(ValueOf(type, 0x48000000), 2);
  EXPECT_EQ(ValueOf(type, 0x60000000), 16);
  EXPECT_EQ(ValueOf(type, 0x42000000), 1.25f);
  EXPECT_EQ(ValueOf(type, 0xc0000000), -1);
  EXPECT_EQ(ValueOf(type, 1), std::ldexp(1.0f, -120));
  EXPECT_EQ(ValueOf(type, 0x7fffffff), std::ldexp(1.0f, 120));
  EXPECT_TRUE(std::isnan(ValueOf(type, 0x80000000)));
  // 27 bits of the fraction: to float, to nearest, ties to even.
  EXPECT_EQ(ValueOf(type, 0x40000008), 1);
  EXPECT_EQ(ValueOf(type, 0x40000009), 1 + std::ldexp(1.0f, -23));
  EXPECT_EQ(ValueOf(type, 0x40000018), 1 + std::ldexp(1.0f, -22));
  EXPECT_EQ(CodeOf(type, 3e38f), 0x7fffffffu);
  EXPECT_EQ(CodeOf(type, -1e-38f), 0xffffffffu);
  EXPECT_EQ(CodeOf(type, -1.25f), 0xbe000000u);
  EXPECT_EQ(CodeOf(type, -INFINITY), 0x80000000u);
  // Around 1 it has all floats.
  for (float v = 1.0f / 16; v < 16; v *= 1.0001f) ASSERT_EQ(ValueOf(type, CodeOf(type, v)), v);
}

TEST(WideTypeTest, FixedPointSaturates) {
  const DataType type = Fixed32();
  EXPECT_EQ(ValueOf(type, 0xffff0000), -1);
  EXPECT_EQ(CodeOf(type, -1.5f), 0xfffe8000u);
  EXPECT_EQ(CodeOf(type, 1e9f), 0x7fffffffu);
  EXPECT_EQ(CodeOf(type, -1e9f), 0x80000000u);
  EXPECT_EQ(CodeOf(type, NAN), 0u);
}

// A type of 17 bits ignores the upper bits of a code.
TEST(WideTypeTest, OnlyTheBitsOfTheTypeCount) {
  const DataType type = RegisterType("wide_fixed17", 17, "(float)code",
                                     "v > 0.0f ? v < 131071.0f ? (u32)v : 131071u : 0u");
  EXPECT_EQ(ValueOf(type, 0xfffe0003), 3);
}

TEST(WideTypeTest, InvalidTypesAreErrors) {
  const char* const to = "(float)(i32)code";
  ExpectMessage([&] { RegisterType("wide_bad", 20, to, "v > 9.0f ? 0x100000u : 0u"); },
                "gives the code 1048576 for");
  // Without saturation, a code of a large number is that of a small one.
  ExpectMessage([&] { RegisterType("wide_bad", 20, to, "as_u32(v) & 0xfffffu"); },
                "it must be monotonic");
  ExpectMessage([&] { RegisterType("wide_bad", 20, "value_of(code)", "0u"); },
                "'wide_bad': its texts do not compile by");
  const DataType type = CutFloat("wide_once", 20);
  EXPECT_EQ(CutFloat("wide_once", 20), type);
  ExpectMessage([&] { CutFloat("wide_once", 21); }, "'wide_once' exists and is another type");
}

// The program cache keeps the compiled functions.
TEST(WideTypeTest, FunctionsAreCached) {
  const char* const to = "(float)code * 0.125f";
  const char* const from = "v > 0.0f ? v < 131071.875f ? (u32)(v * 8.0f) : 1048575u : 0u";
  RegisterType("wide_cached_a", 20, to, from);
  const ScopedVariable failing("CAFFE_CXX", "/bin/false");
  const DataType second = RegisterType("wide_cached_b", 20, to, from);
  EXPECT_EQ(CodeOf(second, 2.25f), 18u);
  EXPECT_EQ(ValueOf(second, 18), 2.25f);
}

// Conversion on a device: all codes to float and back, and floats around every change of code.
class TypeKernelTest : public testing::TestWithParam<Device*> {
 protected:
  static std::vector<uint8_t> Run(Device* device, DataType from, const void* source, DataType to,
                                  int64_t count) {
    auto kernel = ProgramBuilder(device, "convert")
                      .Types({kFloat, from, to})
                      .Body("quant/convert")
                      .Build()
                      ->CreateKernel("convert");
    const int64_t in_bytes = count * static_cast<int64_t>(from.bytes());
    const int64_t out_bytes = count * static_cast<int64_t>(to.bytes());
    const DevicePtr x = device->Allocate(in_bytes, "x"), y = device->Allocate(out_bytes, "y");
    device->Upload(x, source, in_bytes);
    kernel->Launch(count, {count, x.ReadOnly(), y, 1.0, 1.0, 0.0, 0.0});
    std::vector<uint8_t> result(out_bytes);
    device->Download(result.data(), y, out_bytes);
    device->Free(x);
    device->Free(y);
    return result;
  }
};

std::vector<DataType> TypesOfEveryKind() {
  return {
      DataTypeByName("fp8_e4m3"),
      DataTypeByName("fp8_e5m2"),
      DataTypeByName("posit8"),
      DataTypeByName("float10"),
      RegisterType("kernel_fp6", 6, "small_float_value(code, 3, 2, 1)",
                   "small_float_code(v, 3, 2, 1)"),
      RegisterType("kernel_fixed8", 8,
                   [](uint32_t code) { return static_cast<float>(static_cast<int8_t>(code)) / 8; }),
      RegisterType("kernel_fixed12", 12, [](uint32_t code) {
        return static_cast<float>(static_cast<int>(code ^ 2048) - 2048) / 64;
      })};
}

TEST_P(TypeKernelTest, EveryCodeHasTheValueOfTheTable) {
  for (const DataType type : TypesOfEveryKind()) {
    const int64_t count = int64_t{1} << type.info().bits;
    std::vector<uint8_t> codes;
    for (int64_t code = 0; code < count; ++code) {
      codes.push_back(static_cast<uint8_t>(code));
      if (type.bytes() == 2) codes.push_back(static_cast<uint8_t>(code >> 8));
    }
    const std::vector<uint8_t> bytes = Run(GetParam(), type, codes.data(), kFloat, count);
    for (int64_t code = 0; code < count; ++code) {
      float value;
      std::memcpy(&value, &bytes[4 * code], 4);
      const float expected = TableOf(type).Value(static_cast<uint32_t>(code));
      if (expected != expected) {
        EXPECT_NE(value, value) << type.name() << " " << code;
      } else {
        EXPECT_EQ(std::memcmp(&value, &expected, 4), 0) << type.name() << " " << code;
      }
    }
  }
}

TEST_P(TypeKernelTest, EveryFloatHasTheCodeOfTheTable) {
  for (const DataType type : TypesOfEveryKind()) {
    const ValueTable& table = TableOf(type);
    std::vector<uint32_t> bits;
    for (const ValueTable::Step& step : table.steps()) {
      bits.insert(bits.end(), {step.bits - 1, step.bits, step.bits + 1});
    }
    for (uint64_t b = 0; b < uint64_t{1} << 32; b += 99991)
      bits.push_back(static_cast<uint32_t>(b));
    const auto count = static_cast<int64_t>(bits.size());
    const std::vector<uint8_t> codes = Run(GetParam(), kFloat, bits.data(), type, count);
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t code = type.bytes() == 1 ? codes[i] : codes[2 * i] | codes[2 * i + 1] << 8;
      const uint32_t wanted = ValueTable::CodeIn(table.steps(), bits[i]);
      const bool nan = (bits[i] & 0x7fffffff) > 0x7f800000;
      // A device may change the sign of a NaN.
      if (nan && table.Value(code) != table.Value(code)) continue;
      ASSERT_EQ(code, wanted) << type.name() << " " << std::hex << bits[i];
    }
  }
}

// Types without a table: codes and floats across the whole range, on every device and level, with
// an end that is shorter than a vector.
TEST_P(TypeKernelTest, WideTypesHaveTheirFunctions) {
  constexpr int64_t kCount = (1 << 16) + 5;
  std::vector<uint32_t> words(kCount);
  for (int64_t i = 0; i < kCount; ++i) words[i] = static_cast<uint32_t>(i * 65521 + i);
  for (const DataType type : {CutFloat("wide_float24", 24), Posit32(), Fixed32()}) {
    std::vector<float> values(kCount), found_values(kCount);
    FunctionsOf(type).Values(words.data(), values.data(), kCount);
    std::memcpy(found_values.data(), Run(GetParam(), type, words.data(), kFloat, kCount).data(),
                4 * kCount);
    std::vector<float> floats(kCount);
    std::memcpy(floats.data(), words.data(), 4 * kCount);
    std::vector<uint32_t> codes(kCount), found_codes(kCount);
    FunctionsOf(type).Codes(floats.data(), codes.data(), kCount);
    std::memcpy(found_codes.data(), Run(GetParam(), kFloat, words.data(), type, kCount).data(),
                4 * kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      const bool nan = std::isnan(values[i]);
      ASSERT_TRUE(nan ? std::isnan(found_values[i]) : found_values[i] == values[i])
          << type.name() << " " << std::hex << words[i];
      if (std::isnan(floats[i])) continue;  // a device may change its bits
      ASSERT_EQ(found_codes[i], codes[i]) << type.name() << " " << floats[i];
    }
  }
}

// Every instruction level of the CPU has vector forms of its own.
TEST(WideTypeTest, EveryLevelConverts) {
  const std::string level = HostLevel();
  const DataType type = CutFloat("wide_float24", 24);
  Device* cpu = Runtime::Get().cpu();
  for (const std::string& name : HostLevels()) {
    SetHostLevel(name);
    for (const int64_t count : {1, 7, 100}) {
      std::vector<float> floats(count);
      for (int64_t i = 0; i < count; ++i) floats[i] = 1.0f + static_cast<float>(i) / 37;
      std::vector<uint32_t> codes(count);
      FunctionsOf(type).Codes(floats.data(), codes.data(), count);
      auto kernel = ProgramBuilder(cpu, "convert")
                        .Types({kFloat, kFloat, type})
                        .Body("quant/convert")
                        .Build()
                        ->CreateKernel("convert");
      const DevicePtr x = cpu->Allocate(4 * count, "x"), y = cpu->Allocate(4 * count, "y");
      cpu->Upload(x, floats.data(), 4 * count);
      kernel->Launch(count, {count, x.ReadOnly(), y, 1.0, 1.0, 0.0, 0.0});
      std::vector<uint32_t> found(count);
      cpu->Download(found.data(), y, 4 * count);
      EXPECT_EQ(found, codes) << name << ", " << count;
      cpu->Free(x);
      cpu->Free(y);
    }
  }
  SetHostLevel(level);
}

INSTANTIATE_TEST_SUITE_P(Devices, TypeKernelTest, testing::ValuesIn(TestDevices()),
                         [](const auto& info) {
                           return TestName({info.param, kFloat});
                         });

}  // namespace
}  // namespace caffe
