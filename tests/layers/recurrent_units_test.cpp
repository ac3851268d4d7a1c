// LSTMUnit and GRUUnit, the steps of recurrent layers.
#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

constexpr int64_t kRows = 3, kColumns = 5;

// cont of the rows: 0, 1 and a number between them.
LayerTester MakeUnit(const std::string& type, bool recurrent, Device* device, DataType data_type) {
  const int64_t gates = (type == "LSTMUnit" ? 4 : 3) * kColumns;
  std::vector<Shape> shapes{{1, kRows, kColumns}, {1, kRows, gates}, {1, kRows}};
  if (recurrent) shapes.push_back({1, kRows, gates});
  LayerTester layer("type: '" + type + "'", device, TypeTriple::Equal(data_type), shapes,
                    type == "LSTMUnit" ? 2 : 1);
  layer.SetBottom(2, {0, 1, 0.5});
  return layer;
}

class RecurrentUnitsTest : public testing::TestWithParam<DeviceType> {};

TEST_P(RecurrentUnitsTest, LstmByTheFormula) {
  const auto [device, type] = GetParam();
  for (const bool recurrent : {false, true}) {
    LayerTester layer = MakeUnit("LSTMUnit", recurrent, device, type);
    layer.Forward();
    const Numbers before = layer.Bottom(0), gates = layer.Bottom(1), cont = layer.Bottom(2);
    const Numbers hidden = recurrent ? layer.Bottom(3) : Numbers(gates.size(), 0);
    Numbers c, h;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t j = 0; j < kColumns; ++j) {
        const auto gate = [&](int64_t part) {
          const int64_t at = (4 * r + part) * kColumns + j;
          return gates[at] + cont[r] * hidden[at];
        };
        c.push_back(cont[r] * Sigmoid(gate(1)) * before[r * kColumns + j] +
                    Sigmoid(gate(0)) * std::tanh(gate(3)));
        h.push_back(Sigmoid(gate(2)) * std::tanh(c.back()));
      }
    }
    ExpectNear(layer.Top(0), c, Tolerance(type), "c");
    ExpectNear(layer.Top(1), h, Tolerance(type), "h");
  }
}

TEST_P(RecurrentUnitsTest, GruByTheFormula) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeUnit("GRUUnit", true, device, type);
  layer.Forward();
  const Numbers before = layer.Bottom(0), a = layer.Bottom(1), cont = layer.Bottom(2);
  const Numbers b = layer.Bottom(3);
  Numbers h;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t j = 0; j < kColumns; ++j) {
      const int64_t at = 3 * row * kColumns + j;
      const double k = cont[row], r = Sigmoid(a[at] + k * b[at]);
      const double z = Sigmoid(a[at + kColumns] + k * b[at + kColumns]);
      const double n = std::tanh(a[at + 2 * kColumns] + r * k * b[at + 2 * kColumns]);
      h.push_back((1 - z) * n + z * k * before[row * kColumns + j]);
    }
  }
  ExpectNear(layer.Top(), h, Tolerance(type), "h");
}

// Backward of each type and device, against double on the CPU, which CheckGradient checks.
TEST_P(RecurrentUnitsTest, Backward) {
  const auto [device, type] = GetParam();
  for (const char* name : {"LSTMUnit", "GRUUnit"}) {
    LayerTester layer = MakeUnit(name, true, device, type);
    LayerTester exact = MakeUnit(name, true, Runtime::Get().cpu(), kDouble);
    for (LayerTester* one : {&layer, &exact}) {
      one->Forward();
      one->RandomTopDiff(0);
      if (name == std::string("LSTMUnit")) one->RandomTopDiff(1);
      one->Backward();
    }
    for (const int b : {0, 1, 3}) {
      ExpectNear(layer.BottomDiff(b), exact.BottomDiff(b), 2 * Tolerance(type),
                 name + std::string(" bottom ") + std::to_string(b));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RecurrentUnitsTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(RecurrentUnitTest, Gradients) {
  MakeUnit("LSTMUnit", false, Runtime::Get().cpu(), kDouble).CheckGradient();
  MakeUnit("LSTMUnit", true, Runtime::Get().cpu(), kDouble).CheckGradient();
  MakeUnit("GRUUnit", true, Runtime::Get().cpu(), kDouble).CheckGradient();
}

// Only wanted diffs are written.
TEST(RecurrentUnitTest, WritesOnlyWantedDiffs) {
  for (const char* name : {"LSTMUnit", "GRUUnit"}) {
    for (const int wanted : {0, 1, 3}) {
      LayerTester layer = MakeUnit(name, true, Runtime::Get().cpu(), kFloat);
      layer.Forward();
      BlobVec bottom, top;
      for (int b = 0; b < 4; ++b) {
        bottom.push_back(&layer.bottom(b));
        bottom[b]->SetDiff(Numbers(bottom[b]->count(), 77));
      }
      for (int t = 0; t < (name == std::string("LSTMUnit") ? 2 : 1); ++t) {
        layer.RandomTopDiff(t);
        top.push_back(&layer.top(t));
      }
      std::vector<bool> propagate(4, false);
      propagate[wanted] = true;
      layer.layer().Backward(top, propagate, bottom);
      for (int b = 0; b < 4; ++b) {
        EXPECT_EQ(layer.BottomDiff(b) == Numbers(bottom[b]->count(), 77), b != wanted) << name << b;
      }
    }
  }
}

// A sequence that begins does not see NaN of the one before.
TEST(RecurrentUnitTest, NothingCrossesABeginning) {
  for (const char* name : {"LSTMUnit", "GRUUnit"}) {
    LayerTester layer = MakeUnit(name, true, Runtime::Get().cpu(), kFloat);
    layer.SetBottom(2, {0, 0, 0});
    for (const int b : {0, 3}) layer.SetBottom(b, Numbers(layer.bottom(b).count(), NAN));
    layer.Forward();
    for (const double value : layer.Top()) EXPECT_FALSE(std::isnan(value));
    layer.RandomTopDiff(0);
    layer.Backward();
    for (const int b : {0, 1, 3}) {
      for (const double value : layer.BottomDiff(b)) EXPECT_FALSE(std::isnan(value)) << b;
    }
  }
}

TEST(RecurrentUnitTest, ChecksShapes) {
  const auto message = [](const std::vector<Shape>& shapes) -> std::string {
    try {
      LayerTester("name: 'u' type: 'LSTMUnit'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                  shapes, 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({{2, 3, 5}, {2, 3, 20}, {2, 3}}).find("bottom 0 must have the shape 1 N H"),
            std::string::npos);
  EXPECT_NE(message({{1, 3, 5}, {1, 3, 15}, {1, 3}}).find("bottom 1 must have the shape 1 3 20"),
            std::string::npos);
  EXPECT_NE(message({{1, 3, 5}, {1, 3, 20}, {1, 2}}).find("cont must have the shape 1 3"),
            std::string::npos);
}

}  // namespace
}  // namespace caffe
