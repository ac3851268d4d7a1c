#include "caffe/core/data_type.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "caffe/core/error.hpp"
#include "caffe/core/type_registry.hpp"
#include "caffe/core/value_table.hpp"

namespace caffe {
namespace {

TEST(DataTypeTest, NamesAndNumbersLeadBack) {
  ASSERT_EQ(BuiltInTypes().size(), 6u);
  for (DataType type : BuiltInTypes()) {
    EXPECT_EQ(DataTypeByName(type.name()), type);
    EXPECT_EQ(DataTypeByProto(type.info().proto), type);
    EXPECT_NE(type.is_float(), type.is_quantized());
  }
  EXPECT_EQ(kFloat.bytes(), 4u);
  EXPECT_EQ(kHalf.bytes(), 2u);
  EXPECT_EQ(kBfloat16.bytes(), 2u);
  EXPECT_EQ(kDouble.bytes(), 8u);
  EXPECT_EQ(kQuant8.bytes(), 1u);
  EXPECT_EQ(kQuant16.bytes(), 2u);
  EXPECT_EQ(kQuant8.info().code_max, 255);
  EXPECT_EQ(kQuant16.info().code_max, 65535);
}

TEST(TypeRegistryTest, ATypeOfAUserHasItsOwnId) {
  TypeInfo info;
  info.name = "registry_a";
  info.kind = TypeKind::kCustom;
  info.bits = 10;
  info.to_float = "(float)code";
  info.from_float = "(u32)v";
  info.make_table = [] { return nullptr; };  // not called here
  const DataType a = AddDataType(info);
  info.name = "registry_b";
  const DataType b = AddDataType(info);
  EXPECT_NE(a, b);
  EXPECT_EQ(DataTypeByName("registry_a"), a);
  EXPECT_EQ(a.bytes(), 2u);
  EXPECT_EQ(a.word(), "custom_registry_a");
  EXPECT_FALSE(a.is_quantized());
  EXPECT_EQ(a.info().proto, b.info().proto);
  // A number alone does not say which.
  EXPECT_THROW(DataTypeByProto(a.info().proto), Error);
  EXPECT_EQ(TypeTriple::Equal(a).name(), "registry_a");
}

// Values are codes / 2^16, rounded down to codes.
class FixedFunctions final : public TypeFunctions {
 public:
  void Values(const uint32_t* codes, float* values, size_t count) const override {
    for (size_t i = 0; i < count; ++i) values[i] = std::ldexp(static_cast<float>(codes[i]), -16);
  }
  void Codes(const float* values, uint32_t* codes, size_t count) const override {
    for (size_t i = 0; i < count; ++i) {
      codes[i] = static_cast<uint32_t>(std::ldexp(std::clamp(values[i], 0.0f, 255.0f), 16));
    }
  }
};

TEST(TypeRegistryTest, WideTypesHaveFunctions) {
  TypeInfo info;
  info.name = "registry_fixed24";
  info.kind = TypeKind::kCustom;
  info.bits = 24;
  info.to_float = info.from_float = "v";
  const auto functions = std::make_shared<const FixedFunctions>();
  const DataType type = AddDataType(info, functions);
  EXPECT_EQ(type.bytes(), 4u);
  EXPECT_EQ(&FunctionsOf(type), functions.get());
  EXPECT_THROW(TableOf(type), Error);
  EXPECT_THROW(FunctionsOf(DataTypeByName("fp8_e4m3")), Error);
  const double numbers[] = {0, 1.5, 300, std::ldexp(1.0, -17)};
  uint32_t codes[4];
  ConvertElements(kDouble, numbers, type, codes, 4);
  EXPECT_EQ(std::vector<uint32_t>(codes, codes + 4),
            (std::vector<uint32_t>{0, 0x18000, 0xff0000, 0}));
  half halves[4];
  ConvertElements(type, codes, kHalf, halves, 4);
  EXPECT_EQ(halves[1].bits, 0x3e00);
  EXPECT_EQ(halves[2].bits, 0x5bf8);
  info.name = "registry_bad";
  info.bits = 33;
  EXPECT_THROW(AddDataType(info, functions), Error);
  info.bits = 16;
  EXPECT_THROW(AddDataType(info, functions), Error);
}

TEST(TypeRegistryTest, WhatIsNoTypeIsRefused) {
  TypeInfo good;
  good.kind = TypeKind::kCustom;
  good.bits = 8;
  good.to_float = good.from_float = "v";
  good.make_table = [] { return nullptr; };
  good.name = "registry_twice";
  AddDataType(good);
  EXPECT_THROW(AddDataType(good), Error) << "there already";
  const auto refused = [&good](auto change) {
    TypeInfo info = good;
    info.name = "registry_bad";
    change(&info);
    EXPECT_THROW(AddDataType(info), Error);
  };
  refused([](TypeInfo* info) { info->name = "half"; });
  refused([](TypeInfo* info) { info->name = "3"; });
  refused([](TypeInfo* info) { info->name = "a b"; });
  refused([](TypeInfo* info) { info->name = ""; });
  refused([](TypeInfo* info) { info->kind = TypeKind::kQuantized; });
  refused([](TypeInfo* info) { info->bits = 1; });
  refused([](TypeInfo* info) { info->bits = 17; });  // needs functions instead of a table
  refused([](TypeInfo* info) {
    info->bits = 17;
    info->make_table = nullptr;
  });
  refused([](TypeInfo* info) { info->to_float = ""; });
  refused([](TypeInfo* info) { info->make_table = nullptr; });
  EXPECT_THROW(DataTypeByName("registry_bad"), Error);
}

// The numbers of the enum DataType in files of the OpenCL fork; bfloat16 is an extension.
TEST(DataTypeTest, NumbersInFilesStay) {
  EXPECT_EQ(DataTypeByProto(0), kFloat);
  EXPECT_EQ(DataTypeByProto(1), kHalf);
  EXPECT_EQ(DataTypeByProto(2), kDouble);
  EXPECT_EQ(DataTypeByProto(3), kQuant8);
  EXPECT_EQ(DataTypeByProto(4), kQuant16);
  EXPECT_EQ(DataTypeByProto(8), kBfloat16);
}

TEST(DataTypeTest, UnknownTypesNameTheKnownOnes) {
  try {
    DataTypeByName("fp4");
    FAIL() << "fp4 was found";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'fp4'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("bfloat16"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("posit8"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("caffe.register_type"), std::string::npos);
  }
  EXPECT_THROW(DataTypeByProto(77), Error);
  EXPECT_THROW(DataType(255).info(), Error);
  EXPECT_THROW(DataType(-1).info(), Error);
}

TEST(DataTypeTest, TripleName) {
  EXPECT_EQ(TypeTriple::Equal(kHalf).name(), "half");
  EXPECT_EQ((TypeTriple{kFloat, kHalf, kQuant8}).name(), "float/half/quant8");
}

template <class T> T ConvertOne(DataType from, const void* value) {
  T result;
  ConvertElements(from, value, DataTypeOf<T>::value, &result, 1);
  return result;
}

// Through float, each of these would be rounded twice, the second time up from a tie that the first
// one made.
TEST(ConvertElementsTest, DoubleRoundsOnce) {
  struct Case {
    double value;
    uint16_t half_bits, bfloat16_bits;
  };
  const double tiny = std::ldexp(1.0, -40);
  const Case cases[] = {
      {1 + std::ldexp(1.0, -11), 0x3c00, 0x3f80},             // a tie of half: to even
      {1 + std::ldexp(1.0, -11) + tiny, 0x3c01, 0x3f80},      // just above
      {1 + 3 * std::ldexp(1.0, -11) - tiny, 0x3c01, 0x3f80},  // just below the next tie
      {1 + std::ldexp(1.0, -8), 0x3c04, 0x3f80},              // a tie of bfloat16
      {1 + std::ldexp(1.0, -8) + tiny, 0x3c04, 0x3f81},
      {1 + 3 * std::ldexp(1.0, -8) - tiny, 0x3c0c, 0x3f81},
      {65520 - 1e-9, 0x7bff, 0x4780},  // half overflows at 65520
      {65520, 0x7c00, 0x4780},
      {std::ldexp(1.0, -25), 0, 0x3300},  // half the smallest half: to even, that is 0
      {std::ldexp(1.0, -25) * (1 + tiny), 1, 0x3300},
      {1e300, 0x7c00, 0x7f80},
      {0, 0, 0},
  };
  for (const Case& one : cases) {
    for (int sign : {0, 0x8000}) {
      const double value = sign ? -one.value : one.value;
      EXPECT_EQ(ConvertOne<half>(kDouble, &value).bits, one.half_bits | sign) << value;
      EXPECT_EQ(ConvertOne<bfloat16>(kDouble, &value).bits, one.bfloat16_bits | sign) << value;
    }
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(static_cast<float>(ConvertOne<half>(kDouble, &nan))));
  EXPECT_TRUE(std::isnan(static_cast<float>(ConvertOne<bfloat16>(kDouble, &nan))));
}

TEST(ConvertElementsTest, EveryPairOfFloatKinds) {
  const std::vector<double> values{0, 1, -1, 0.5, -2.25, 96, 1.0 / 128};  // exact in all of them
  for (DataType from : FloatTypes()) {
    std::vector<char> source(values.size() * from.bytes());
    ConvertElements(kDouble, values.data(), from, source.data(), values.size());
    for (DataType to : FloatTypes()) {
      std::vector<char> target(values.size() * to.bytes());
      ConvertElements(from, source.data(), to, target.data(), values.size());
      std::vector<double> back(values.size());
      ConvertElements(to, target.data(), kDouble, back.data(), values.size());
      EXPECT_EQ(back, values) << from.name() << " to " << to.name();
    }
  }
}

TEST(ConvertElementsTest, CodesNeedAScale) {
  const quant8 code{7};
  float value;
  EXPECT_THROW(ConvertElements(kQuant8, &code, kFloat, &value, 1), Error);
  EXPECT_THROW(ConvertElements(kFloat, &value, kQuant16, &value, 1), Error);
}

TEST(ConvertElementsTest, CodesOfOneTypeAreCopied) {
  const quant16 codes[] = {{0}, {40000}, {65535}};
  quant16 copies[3];
  ConvertElements(kQuant16, codes, kQuant16, copies, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(copies[i].code, codes[i].code);
}

}  // namespace
}  // namespace caffe
