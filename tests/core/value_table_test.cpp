#include "caffe/core/value_table.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

// The conversions of store_c8 and store_c16 of kernels/types/table.h.
uint32_t HostCode(const ValueTable& table, int bytes, float value) {
  const uint32_t* words = table.host_words();
  const uint32_t bits = Bits(value), low = bits & 0xffff;
  const uint32_t row = words[(bytes == 1 ? 256 : 65536) + (bits >> 16)], shift = row & 31;
  const uint32_t rest = low & ((1u << shift) - 1);
  if (bytes == 1) {
    const uint32_t entry = words[(row >> 5) + (low >> shift)];
    return (rest < entry >> 16 ? entry >> 8 : entry) & 0xff;
  }
  const uint32_t at = (row >> 5) + 2 * (low >> shift);
  return (rest < words[at + 1] ? words[at] >> 16 : words[at]) & 0xffff;
}

// Floats on both sides of every change of code, and every 65,521st one.
std::vector<float> Probes(const ValueTable& table) {
  std::vector<float> probes;
  for (const ValueTable::Step& step : table.steps()) {
    for (const uint32_t bits : {step.bits - 1, step.bits, step.bits + 1}) {
      probes.push_back(std::bit_cast<float>(bits));
    }
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 65521) {
    probes.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return probes;
}

// A type's formula: 2^(exponent - bias) (1 + mantissa / 2^m), or without the 1 for exponent 0.
double SmallFloat(int code, int e, int m, bool infinities) {
  const int bias = (1 << (e - 1)) - 1, exponent = code >> m & ((1 << e) - 1);
  const int mantissa = code & ((1 << m) - 1), sign = code >> (e + m) ? -1 : 1;
  const bool top = exponent == (1 << e) - 1;
  if (infinities && top) return mantissa ? NAN : sign * INFINITY;
  if (!infinities && top && mantissa == (1 << m) - 1) return NAN;
  const double fraction = std::ldexp(mantissa, -m);
  return exponent ? sign * std::ldexp(1 + fraction, exponent - bias)
                  : sign * std::ldexp(fraction, 1 - bias);
}

struct Format {
  const char* name;
  int e, m;
  bool infinities;
};

class SmallFloatTest : public testing::TestWithParam<Format> {};

TEST_P(SmallFloatTest, EveryCodeHasTheValueOfItsFormulaAndComesBack) {
  const auto [name, e, m, infinities] = GetParam();
  const ValueTable& table = TableOf(DataTypeByName(name));
  ASSERT_EQ(table.values().size(), size_t{1} << (1 + e + m));
  for (uint32_t code = 0; code < table.values().size(); ++code) {
    const float value = table.Value(code);
    const double wanted = SmallFloat(static_cast<int>(code), e, m, infinities);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(value)) << code;
      EXPECT_TRUE(std::isnan(table.Value(table.Code(value)))) << code;
    } else {
      EXPECT_EQ(Bits(value), Bits(static_cast<float>(wanted))) << code;
      EXPECT_EQ(table.Code(value), code);
    }
  }
}

// The nearest value by the formula, ties to the even code; e4m3 saturates, IEEE's formats overflow.
TEST_P(SmallFloatTest, RoundsToNearestEven) {
  const auto [name, e, m, infinities] = GetParam();
  const ValueTable& table = TableOf(DataTypeByName(name));
  const int largest = (1 << (e + m)) - (infinities ? (1 << m) + 1 : 2);
  const double most = SmallFloat(largest, e, m, infinities);
  const double step = most - SmallFloat(largest - 1, e, m, infinities);
  for (const float probe : Probes(table)) {
    if (std::isnan(probe)) continue;
    const double size = std::abs(static_cast<double>(probe));
    int code = 0;
    if (size >= most + step / 2) {
      code = infinities ? largest + 1 : largest;
    } else {
      int low = 0, high = largest;
      while (high - low > 1) {
        const int middle = (low + high) / 2;
        (SmallFloat(middle, e, m, infinities) <= size ? low : high) = middle;
      }
      const double down = size - SmallFloat(low, e, m, infinities);
      const double up = SmallFloat(high, e, m, infinities) - size;
      code = down < up || (down == up && low % 2 == 0) ? low : high;
    }
    if (std::signbit(probe)) code |= 1 << (e + m);
    ASSERT_EQ(table.Code(probe), static_cast<uint32_t>(code)) << probe;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloatTest,
                         testing::Values(Format{"fp8_e4m3", 4, 3, false},
                                         Format{"fp8_e5m2", 5, 2, true},
                                         Format{"float10", 5, 4, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ValueTableTest, Fp8HasTheLimitsOfItsSpecification) {
  const ValueTable& e4m3 = TableOf(DataTypeByName("fp8_e4m3"));
  EXPECT_EQ(e4m3.Value(0x7e), 448);
  EXPECT_EQ(e4m3.Value(1), std::ldexp(1.f, -9));
  for (const float large : {448.f, 465.f, 1e6f, kInfinity}) {
    EXPECT_EQ(e4m3.Code(large), 0x7eu);
    EXPECT_EQ(e4m3.Code(-large), 0xfeu);
  }
  EXPECT_EQ(e4m3.Code(kNan), 0x7fu);
  const ValueTable& e5m2 = TableOf(DataTypeByName("fp8_e5m2"));
  EXPECT_EQ(e5m2.Value(0x7b), 57344);
  EXPECT_EQ(e5m2.Code(61439), 0x7bu);
  EXPECT_EQ(e5m2.Code(61440), 0x7cu);  // a tie: to infinity, whose code is even
  EXPECT_EQ(e5m2.Code(kInfinity), 0x7cu);
  EXPECT_TRUE(std::isnan(e5m2.Value(e5m2.Code(kNan))));
}

// By the definition of Posit Standard (2022), chapter 3, for 8 bits: (1 - 3 s + f) 2^((1 - 2 s)(4 r
// + e + s)).
TEST(ValueTableTest, Posit8HasTheValuesOfItsStandard) {
  const ValueTable& table = TableOf(DataTypeByName("posit8"));
  for (int code = 0; code < 256; ++code) {
    const float value = table.Value(code);
    if (code == 0) EXPECT_EQ(Bits(value), 0u);
    if (code == 128) EXPECT_TRUE(std::isnan(value));
    if (code % 128 == 0) continue;
    const int s = code >> 7, first = code >> 6 & 1;
    int k = 0;
    while (k < 7 && (code >> (6 - k) & 1) == first) ++k;
    const int r = first ? k - 1 : -k;
    // The bits after the regime and its last bit, with zeros behind the end.
    const int rest = (code << (k + 2) & 0xff) << 8;
    const int e = rest >> 14;
    const double f = std::ldexp(rest & 0x3fff, -14);
    const double wanted = (1 - 3 * s + f) * std::ldexp(1.0, (1 - 2 * s) * (4 * r + e + s));
    EXPECT_EQ(value, wanted) << code;
    EXPECT_EQ(table.Code(value), static_cast<uint32_t>(code));
  }
}

// Nothing rounds to 0 or NaR; between neighbours the boundary is the posit of 9 bits between them.
TEST(ValueTableTest, Posit8Rounds) {
  const ValueTable& table = TableOf(DataTypeByName("posit8"));
  EXPECT_EQ(table.Code(1e-30f), 1u);
  EXPECT_EQ(table.Code(-1e-30f), 255u);
  EXPECT_EQ(table.Code(1e30f), 127u);
  EXPECT_EQ(table.Code(-1e30f), 129u);
  EXPECT_EQ(table.Code(-0.f), 0u);
  for (const float none : {kInfinity, -kInfinity, kNan}) EXPECT_EQ(table.Code(none), 128u);
  // 1 is 0x40 and 1.125 is 0x41.
  EXPECT_EQ(table.Value(0x41), 1.125f);
  EXPECT_EQ(table.Code(1.0625f), 0x40u);  // a tie
  EXPECT_EQ(table.Code(std::nextafter(1.0625f, 2.f)), 0x41u);
  EXPECT_EQ(table.Code(1.1875f), 0x42u);  // a tie
  // 2^24 and 2^20 have no posit between them but 2^22 of 9 bits.
  EXPECT_EQ(table.Value(126), std::ldexp(1.f, 20));
  EXPECT_EQ(table.Code(std::ldexp(1.f, 22)), 126u);
  EXPECT_EQ(table.Code(std::ldexp(1.1f, 22)), 127u);
}

// Tables of every density: the codes that kernels on the CPU find are those of the steps.
TEST(ValueTableTest, KernelsFindTheSameCodes) {
  const auto nearest = [](int bits, const std::function<float(int)>& value) {
    std::vector<float> values;
    for (int code = 0; code < 1 << bits; ++code) values.push_back(value(code));
    return ValueTable("probe", bits, values, ValueTable::Nearest("probe", values));
  };
  std::vector<std::pair<int, ValueTable>> tables;
  for (const char* name : {"fp8_e4m3", "fp8_e5m2", "posit8", "float10"}) {
    tables.emplace_back(DataTypeByName(name).bytes(), TableOf(DataTypeByName(name)));
  }
  // Fixed point of 8 and of 16 bits, a power series, and codes next to each other.
  tables.emplace_back(1,
                      nearest(8, [](int c) { return static_cast<float>((c ^ 128) - 128) / 16; }));
  tables.emplace_back(
      2, nearest(16, [](int c) { return static_cast<float>((c ^ 32768) - 32768) / 256; }));
  tables.emplace_back(
      1, nearest(6, [](int c) { return (c & 32 ? -1.f : 1.f) * std::exp2((c & 31) / 4.f); }));
  tables.emplace_back(1, nearest(8, [](int c) { return 1 + static_cast<float>(c) * 0x1p-23f; }));
  for (const auto& [bytes, table] : tables) {
    for (const float probe : Probes(table)) {
      ASSERT_EQ(HostCode(table, bytes, probe), table.Code(probe)) << Bits(probe);
    }
    for (uint32_t code = 0; code < (bytes == 1 ? 256u : 65536u); ++code) {
      ASSERT_EQ(table.host_words()[code], Bits(table.Value(code)));
    }
  }
}

TEST(ValueTableTest, NearestTakesTheEvenCodeOfATieAndKeepsSigns) {
  // 0, 1, 2, inf, -0, -1, -2, nan
  const std::vector<float> values{0, 1, 2, kInfinity, -0.f, -1, -2, kNan};
  const ValueTable table("probe", 3, values, ValueTable::Nearest("probe", values));
  const std::vector<std::pair<float, uint32_t>> expected{
      {0.5f, 0}, {0.51f, 1}, {1.5f, 2},  {2.4f, 2}, {2.5f, 2},      {2.51f, 3},      {-0.4f, 4},
      {-0.f, 4}, {-0.5f, 4}, {-0.6f, 5}, {-3, 6},   {kInfinity, 3}, {-kInfinity, 6}, {kNan, 7}};
  for (const auto& [value, code] : expected) EXPECT_EQ(table.Code(value), code) << value;
}

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ValueTableTest, InvalidRoundingIsAnError) {
  const std::vector<float> values{0, 1, 2, 3};
  const auto make = [&](uint32_t (*code)(float)) {
    return MessageOf([&] {
      ValueTable("probe", 2, values, [code](const float* floats, uint32_t* codes, size_t count) {
        for (size_t i = 0; i < count; ++i) codes[i] = code(floats[i]);
      });
    });
  };
  EXPECT_NE(make([](float) { return 4u; }).find("gives the code 4 for"), std::string::npos);
  EXPECT_NE(make([](float v) { return Bits(v) >> 3 & 3u; }).find("must be monotonic"),
            std::string::npos);
  EXPECT_EQ(make([](float v) { return v > 1 ? 2u : 1u; }), "no error");
  EXPECT_NE(MessageOf([] {
              ValueTable::Nearest("probe", {kNan, kNan});
            }).find("no code has a finite"),
            std::string::npos);
  EXPECT_NE(MessageOf([] { TableOf(kHalf); }).find("half has no table"), std::string::npos);
}

TEST(ValueTableTest, ElementsAreConverted) {
  const DataType fp8 = DataTypeByName("fp8_e4m3"), narrow = DataTypeByName("float10");
  const std::vector<double> numbers{1.0625, -3.3, 1e9, 0, NAN};
  std::vector<uint8_t> codes(5);
  ConvertElements(kDouble, numbers.data(), fp8, codes.data(), 5);
  EXPECT_EQ(codes, (std::vector<uint8_t>{0x38, 0xc5, 0x7e, 0, 0x7f}));
  std::vector<float> floats(5);
  ConvertElements(fp8, codes.data(), kFloat, floats.data(), 5);
  EXPECT_EQ(floats[0], 1);
  EXPECT_EQ(floats[1], -3.25);
  EXPECT_EQ(floats[2], 448);
  EXPECT_TRUE(std::isnan(floats[4]));
  std::vector<uint16_t> other(5);
  ConvertElements(fp8, codes.data(), narrow, other.data(), 5);
  const ValueTable& table = TableOf(narrow);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(table.Value(other[i]), floats[i]);
  // A double next to a tie is rounded once.
  const double above = 1.0625 * (1 + 0x1p-40);
  ConvertElements(kDouble, &above, fp8, codes.data(), 1);
  EXPECT_EQ(codes[0], 0x39);
}

}  // namespace
}  // namespace caffe
