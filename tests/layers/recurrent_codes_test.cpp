// LSTM, RNN and GRU whose products have codes of 8 bits as operands.
#include <cmath>
#include <sstream>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"
#include "layers/recurrence.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using Options = RecurrentNet::Options;

constexpr Recurrence::Kind kKinds[] = {Recurrence::kLSTM, Recurrence::kRNN, Recurrence::kGRU};
constexpr double kMost = 2;  // of x and static input
constexpr char kCodes[] = "compute_data_type: CAFFE_INT8_QUANTIZED";

// The range of a blob in the net.
std::string RangeText(const std::string& blob, double most = kMost) {
  std::ostringstream text;
  text << "quantizer { name: '" << blob << "' observed_min: " << -most << " observed_max: " << most
       << " } ";
  return text.str();
}

Options CodesOf(bool has_static, bool exposes) {
  std::string ranges = RangeText("x");
  if (has_static) ranges += RangeText("fixed");
  if (exposes) ranges += RangeText("h0", 1);
  return {has_static, exposes, 1, ranges, kCodes, "", 16};
}

// The nearest number with a code in [-most, most].
double Rounded(double value, double most) {
  const double scale = 2 * most / 255;
  return std::round(std::clamp(value, -most, most) / scale) * scale;
}

// Each row by its own scale, as weights are.
Numbers RoundedRows(const Numbers& weights, int64_t inputs) {
  Numbers rounded;
  for (size_t first = 0; first < weights.size(); first += inputs) {
    double largest = 0;
    for (int64_t i = 0; i < inputs; ++i) {
      largest = std::max(largest, std::abs(weights[first + i]));
    }
    for (int64_t i = 0; i < inputs; ++i) {
      const double scale = largest > 0 ? largest / 127 : 1;
      rounded.push_back(std::round(weights[first + i] / scale) * scale);
    }
  }
  return rounded;
}

class RecurrentCodesTest : public testing::TestWithParam<DeviceType> {};

// By the formulas with rounded weights, inputs and states. A number between two codes may become
// the other one.
TEST_P(RecurrentCodesTest, ValuesByTheFormulas) {
  Device* const device = GetParam().device;
  for (const auto kind : kKinds) {
    for (const bool has_static : {false, true}) {
      for (const bool exposes : {false, true}) {
        SCOPED_TRACE(testing::Message() << TypeName(kind) << has_static << exposes);
        RecurrentNet one(kind, device, kFloat, CodesOf(has_static, exposes));
        Recurrence& f = one.formulas;
        f.read_state = [&](double h) { return Rounded(h, 1); };
        for (size_t i = 0; i < f.blobs.size(); ++i) {
          const Shape& shape = one.layer().blobs()[i]->shape();
          if (shape.size() == 2) f.blobs[i] = RoundedRows(f.blobs[i], shape[1]);
        }
        for (int pass = 0; pass < 2; ++pass) {
          one.net->Forward();
          Numbers x = Values(*one.net, "x"), fixed, before = one.h;
          if (has_static) fixed = Values(*one.net, "fixed");
          if (exposes) one.h = Values(*one.net, "h0");
          if (exposes && kind == Recurrence::kLSTM) one.c = Values(*one.net, "c0");
          for (Numbers* numbers : {&x, &fixed}) {
            for (double& value : *numbers) value = Rounded(value, kMost);
          }
          const Numbers expected = f.Run(x, Values(*one.net, "cont"), fixed, &one.h, &one.c);
          // Two products of RNN read states.
          const double tolerance = kind == Recurrence::kRNN ? 0.015 : 0.008;
          ExpectNear(Values(*one.net, "y"), expected, tolerance, "y");
        }
      }
    }
  }
}

// The sums are the same integers on all devices: only the functions of gates differ, by rounding.
TEST_P(RecurrentCodesTest, DevicesAgree) {
  for (const auto kind : kKinds) {
    SCOPED_TRACE(TypeName(kind));
    RecurrentNet one(kind, GetParam().device, kFloat, CodesOf(true, false), 9);
    RecurrentNet cpu(kind, Runtime::Get().cpu(), kFloat, CodesOf(true, false), 9);
    for (RecurrentNet* net : {&one, &cpu}) net->net->Forward();
    ExpectNear(Values(*one.net, "y"), Values(*cpu.net, "y"), 1e-4, "y");
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RecurrentCodesTest, testing::ValuesIn(DevicesAndTypes({kFloat})),
                         [](const auto& info) { return TestName(info.param); });

TEST(RecurrentCodesNetTest, TheStepsShareTheirCodes) {
  for (const auto kind : kKinds) {
    SCOPED_TRACE(TypeName(kind));
    const auto derived = [&](int64_t steps, bool exposes) {
      RecurrentNet one(kind, Runtime::Get().cpu(), kFloat, CodesOf(false, exposes), steps);
      one.net->Forward();
      return one.net->memory_needs().derived;
    };
    EXPECT_GT(derived(2, false), 0);
    // Scale and TanH of a step of RNN have a number of their own.
    const int64_t own = kind == Recurrence::kRNN ? 4 : 0;
    EXPECT_EQ(derived(2, false) + 28 * own, derived(30, false));
    // The first state of the caller has a range of its own.
    EXPECT_EQ(derived(3, true) + 27 * own, derived(30, true));
  }
}

TEST(RecurrentCodesNetTest, InputsNeedRanges) {
  for (const std::string missing : {"x", "fixed", "h0"}) {
    Options options = CodesOf(true, true);
    const std::string range = RangeText(missing, missing == "h0" ? 1 : kMost);
    options.net.erase(options.net.find(range), range.size());
    RecurrentNet one(Recurrence::kLSTM, Runtime::Get().cpu(), kFloat, options);
    const std::string error = MessageOf([&] { one.net->Forward(); });
    EXPECT_NE(error.find("no range of blob " + missing + " was ever observed"), std::string::npos)
        << error;
  }
}

// No range of a step is observed or stored: the number of steps may change, and the way in which a
// device computes them.
TEST(RecurrentCodesNetTest, StepsHaveNoRangesOfTheirOwn) {
  RecurrentNet one(Recurrence::kGRU, Runtime::Get().cpu(), kFloat, {});
  one.net->set_quantizer_mode(CAFFE_QUANT_OBSERVE);
  one.net->Forward();
  const auto ranges = one.net->Ranges();
  EXPECT_EQ(ranges.count("y"), 1u);
  for (const auto& [name, range] : ranges) EXPECT_EQ(name.find('/'), std::string::npos) << name;
}

// Mode pseudo rounds weights, x and the states, as codes do: states are those of codes, rounded.
TEST(RecurrentCodesNetTest, ModePseudoHasTheErrorsOfCodes) {
  for (const auto kind : kKinds) {
    SCOPED_TRACE(TypeName(kind));
    Options options = CodesOf(false, false);
    RecurrentNet codes(kind, Runtime::Get().cpu(), kFloat, options, 12);
    options.layer = "";
    RecurrentNet exact(kind, Runtime::Get().cpu(), kFloat, options, 12);
    RecurrentNet pseudo(kind, Runtime::Get().cpu(), kFloat, options, 12);
    pseudo.net->set_quantizer_mode(CAFFE_QUANT_PSEUDO);
    for (RecurrentNet* net : {&codes, &exact, &pseudo}) net->net->Forward();
    // The elements with another code.
    const auto others = [&](RecurrentNet* net) {
      const Numbers a = Values(*net->net, "y"), b = Values(*codes.net, "y");
      int count = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        count += std::abs(Rounded(a[i], 1) - Rounded(b[i], 1)) > 1e-6;
      }
      return count;
    };
    EXPECT_GT(others(&exact), 20);
    // A GRU also carries h itself, which codes do not round.
    EXPECT_LT(others(&pseudo), others(&exact) / (kind == Recurrence::kGRU ? 1 : 4));
  }
}

TEST(RecurrentCodesNetTest, HasNoBackwardPass) {
  Options options = CodesOf(false, false);
  options.net += " force_backward: true";
  RecurrentNet one(Recurrence::kLSTM, Runtime::Get().cpu(), kFloat, options);
  one.net->Forward();
  EXPECT_NE(MessageOf([&] { one.net->Backward(); }), "");
}

}  // namespace
}  // namespace caffe
