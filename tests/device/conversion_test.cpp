// kernels/quant/convert.h on every device against conversions on the host, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/memory/blob.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

// A bit pattern and whether it is a NaN, of which there are many.
struct Element {
  uint64_t bits = 0;
  bool nan = false;
  friend bool operator==(const Element& a, const Element& b) {
    return a.nan ? b.nan : !b.nan && a.bits == b.bits;
  }
};

Element ElementAt(DataType type, const void* data, int64_t index) {
  Element element;
  const char* at = static_cast<const char*>(data) + index * static_cast<int64_t>(type.bytes());
  std::memcpy(&element.bits, at, type.bytes());  // little endian
  if (type.is_float()) {
    double value;
    ConvertElements(type, at, kDouble, &value, 1);
    element.nan = std::isnan(value);
  }
  return element;
}

std::shared_ptr<BlobBase> BlobOf(DataType type, Device* device, const std::vector<double>& values) {
  auto blob = MakeBlob(type, device, {static_cast<int64_t>(values.size())}, "x");
  blob->SetData(values);
  return blob;
}

// Every code of a type of two bytes; of the others the values of both narrow formats, points
// halfway between, and their neighbours.
std::shared_ptr<BlobBase> Inputs(DataType type, Device* device) {
  if (type.bytes() == 2) {
    auto blob = MakeBlob(type, device, {65536}, "x");
    auto* codes = static_cast<uint16_t*>(blob->mutable_host_data());
    for (int code = 0; code < 65536; ++code) codes[code] = static_cast<uint16_t>(code);
    return blob;
  }
  std::vector<double> values{
      NAN,    0.0,       -0.0,  1e300,  -1e300,
      1e-300, 65519.999, 65520, 3.4e38, std::numeric_limits<double>::infinity()};
  const auto add = [&](double value) {
    const double inf = std::numeric_limits<double>::infinity();
    const float narrow = static_cast<float>(value);
    for (double x : {value, static_cast<double>(std::nextafter(narrow, -INFINITY)),
                     static_cast<double>(std::nextafter(narrow, INFINITY)),
                     std::nextafter(value, -inf), std::nextafter(value, inf)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  };
  for (int code = 0; code < 0x7c00; code += 3) {
    const double low = HalfBitsToFloat(static_cast<uint16_t>(code));
    const double high = HalfBitsToFloat(static_cast<uint16_t>(code + 1));
    add(low);
    if (std::isfinite(high)) add((low + high) / 2);
  }
  for (int code = 0; code < 0x7f7f; code += 7) {
    const double low = Bfloat16BitsToFloat(static_cast<uint16_t>(code));
    const double high = Bfloat16BitsToFloat(static_cast<uint16_t>(code + 1));
    add(low);
    add((low + high) / 2);
  }
  return BlobOf(type, device, values);
}

DataType ComputeType(DataType in, DataType out) {
  return in == kDouble || out == kDouble ? kDouble : kFloat;
}

void Convert(Device* device, const BlobBase& x, BlobBase* y) {
  auto kernel = ProgramBuilder(device, "convert")
                    .Types({ComputeType(x.type(), y->type()), x.type(), y->type()})
                    .Body("quant/convert")
                    .Build()
                    ->CreateKernel("convert");
  const bool codes = y->type().is_quantized();
  const QuantRange& range = y->range();
  kernel->Launch(x.count(),
                 {x.count(), x.Data(), y->MutableData(),
                  x.type().is_quantized() ? x.range().scale : 1.0, codes ? 1 / range.scale : 1.0,
                  codes ? static_cast<double>(y->type().info().code_min - range.zero) : 0.0,
                  codes ? static_cast<double>(y->type().info().code_max - range.zero) : 0.0});
}

class ConversionTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ConversionTest, FloatKindsAsOnTheHost) {
  const auto [device, in] = GetParam();
  const auto x = Inputs(in, device);
  for (DataType out : FloatTypes()) {
    if (out == kDouble && !device->info().fp64) continue;
    auto y = MakeBlob(out, device, x->shape(), "y");
    Convert(device, *x, y.get());
    std::vector<char> expected(y->bytes());
    ConvertElements(in, x->host_data(), out, expected.data(), x->count());
    for (int64_t i = 0; i < x->count(); ++i) {
      ASSERT_EQ(ElementAt(out, y->host_data(), i), ElementAt(out, expected.data(), i))
          << in.name() << " to " << out.name() << ": element " << i << ", bits " << std::hex
          << ElementAt(in, x->host_data(), i).bits << " became "
          << ElementAt(out, y->host_data(), i).bits << ", expected "
          << ElementAt(out, expected.data(), i).bits;
    }
  }
}

TEST_P(ConversionTest, NarrowCodesComeBack) {
  const auto [device, in] = GetParam();
  if (in.bytes() != 2) return;
  const auto x = Inputs(in, device);
  auto y = MakeBlob(kFloat, device, x->shape(), "y");
  auto back = MakeBlob(in, device, x->shape(), "x again");
  Convert(device, *x, y.get());
  Convert(device, *y, back.get());
  for (int64_t code = 0; code < 65536; ++code) {
    ASSERT_EQ(ElementAt(in, back->host_data(), code), ElementAt(in, x->host_data(), code)) << code;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConversionTest, testing::ValuesIn(DevicesAndTypes(FloatTypes())),
                         [](const auto& info) { return TestName(info.param); });

// Real numbers to codes: x * (1 / scale), half away from zero, clamped; NaN is the zero point.
class QuantizeTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizeTest, CodesAsSpecified) {
  const auto [device, out] = GetParam();
  for (const QuantRange range :
       {QuantRange{0.5, out.info().code_max / 3, true}, QuantRange{0.037, 0, true},
        QuantRange{1.0, out.info().code_max, true}}) {
    for (DataType in : FloatTypes()) {
      if (in == kDouble && !device->info().fp64) continue;
      const auto x = Inputs(in, device);
      auto y = MakeBlob(out, device, x->shape(), "y");
      y->set_range(range);
      Convert(device, *x, y.get());
      const std::vector<double> values = x->DataAsDouble();
      const double low = -range.zero, high = out.info().code_max - range.zero;
      for (int64_t i = 0; i < x->count(); ++i) {
        // The factor and the product are of the arithmetic type.
        const double units =
            in == kDouble ? values[i] * (1 / range.scale)
                          : static_cast<float>(values[i]) * static_cast<float>(1 / range.scale);
        const double code = std::isnan(units) ? 0 : std::round(std::clamp(units, low, high));
        ASSERT_EQ(ElementAt(out, y->host_data(), i).bits, static_cast<uint64_t>(code + range.zero))
            << in.name() << " " << values[i] << ", scale " << range.scale;
      }
    }
  }
}

TEST_P(QuantizeTest, JustBelowAHalfRoundsDown) {
  const auto [device, out] = GetParam();
  const auto x = BlobOf(kFloat, device,
                        {std::nextafter(0.5f, 0.f), 0.5, std::nextafter(-0.5f, 0.f), -0.5, 2.5});
  auto y = MakeBlob(out, device, x->shape(), "y");
  y->set_range({1, 100, true});
  Convert(device, *x, y.get());
  std::vector<uint64_t> codes;
  for (int64_t i = 0; i < 5; ++i) codes.push_back(ElementAt(out, y->host_data(), i).bits);
  EXPECT_EQ(codes, std::vector<uint64_t>({100, 101, 100, 99, 103}));
}

TEST_P(QuantizeTest, EveryCodeComesBack) {
  const auto [device, type] = GetParam();
  const QuantRange range{0.0123, type.info().code_max / 5, true};
  auto x = MakeBlob(type, device, {type.info().code_max + 1}, "x");
  x->set_range(range);
  char* codes = static_cast<char*>(x->mutable_host_data());
  for (int64_t code = 0; code < x->count(); ++code) {
    std::memcpy(codes + code * type.bytes(), &code, type.bytes());
  }
  auto real = MakeBlob(kFloat, device, x->shape(), "real");
  Convert(device, *x, real.get());
  const auto* values = static_cast<const float*>(real->host_data());
  for (int64_t code = 0; code < x->count(); ++code) {
    ASSERT_EQ(values[code],
              static_cast<float>(code - range.zero) * static_cast<float>(range.scale));
  }
  auto back = MakeBlob(type, device, x->shape(), "x again");
  back->set_range(range);
  Convert(device, *real, back.get());
  EXPECT_EQ(std::memcmp(back->host_data(), x->host_data(), x->bytes()), 0);
}

TEST_P(QuantizeTest, CodesToCodesOfAnotherRange) {
  const auto [device, type] = GetParam();
  for (DataType out : {kQuant8, kQuant16}) {
    auto x = MakeBlob(type, device, {type.info().code_max + 1}, "x");
    x->set_range({0.1, 7, true});
    char* codes = static_cast<char*>(x->mutable_host_data());
    for (int64_t code = 0; code < x->count(); ++code) {
      std::memcpy(codes + code * type.bytes(), &code, type.bytes());
    }
    auto y = MakeBlob(out, device, x->shape(), "y");
    y->set_range({0.3, 50, true});
    Convert(device, *x, y.get());
    const float inverse = static_cast<float>(1 / 0.3);
    for (int64_t code = 0; code < x->count(); ++code) {
      const float units = static_cast<float>(code - 7) * static_cast<float>(0.1) * inverse;
      const double expected = std::clamp<double>(std::round(units) + 50, 0, out.info().code_max);
      ASSERT_EQ(ElementAt(out, y->host_data(), code).bits, static_cast<uint64_t>(expected)) << code;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeTest, testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
