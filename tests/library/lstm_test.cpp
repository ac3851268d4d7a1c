// LSTM over all steps: each row of the table against the same in double on the CPU.
#include "caffe/library/lstm.hpp"

#include "caffe/library/generated/lstm_steps.hpp"
#include "library/library_support.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe::test {
namespace {

using Numbers = std::vector<double>;

struct Sizes {
  int64_t steps, items, hidden;
};

Numbers Scaled(int64_t count, uint64_t seed, double factor) {
  Numbers values = TestNumbers(count, seed);
  for (double& value : values) value *= factor;
  return values;
}

// 1, and for some sequences in some steps 0, or a number between them.
Numbers Cont(const Sizes& s) {
  Numbers cont(s.steps * s.items, 1);
  for (int64_t i = 0; i < s.steps * s.items; ++i) {
    if (i * 2654435761 % 7 == 0) cont[i] = 0;
    if (i * 2654435761 % 11 == 0) cont[i] = 0.5;
  }
  return cont;
}

// h, the last states, and if it trains the gradients, which are those of the sum of these times
// numbers.
std::vector<Numbers> Results(Device* device, DataType type, const std::string& library,
                             const Sizes& s, bool trains) {
  LstmDescriptor d;
  d.steps = s.steps;
  d.items = s.items;
  d.hidden = s.hidden;
  d.type = type;
  d.trains = trains;
  const int64_t state = d.state_count(), all = s.steps * state, weights = 4 * s.hidden * s.hidden;
  const auto op = Multiplexer::LstmBy(library, device, d);
  EXPECT_EQ(op->library(), library);
  const Bytes workspace(device, op->workspace_bytes());
  const auto input = [&](int64_t count, uint64_t seed, double factor) {
    return std::make_unique<Array>(device, type, Scaled(count, seed, factor));
  };
  const auto zeros = [&](int64_t count) {
    return std::make_unique<Array>(device, type, Numbers(count, 0));
  };
  const auto gates = input(4 * all, 1, 1), h_first = input(state, 2, 1),
             c_first = input(state, 3, 1);
  // Sums of about the size of the gates.
  const auto w = input(weights, 4, s.hidden < 32 ? 0.5 : s.hidden < 512 ? 0.125 : 0.0625);
  const Array cont(device, kFloat, Cont(s));
  const auto h = zeros(all), c = zeros(all), hidden_gates = zeros(4 * all);
  const auto h_last = zeros(state), c_last = zeros(state);
  LstmArguments a;
  a.gates = *gates;
  a.cont = cont;
  a.h_first = *h_first;
  a.c_first = *c_first;
  a.weights = *w;
  a.h = *h;
  a.h_last = *h_last;
  a.c_last = *c_last;
  if (trains) {
    a.hidden_gates = *hidden_gates;
    a.c = *c;
  }
  a.workspace = workspace;
  op->Forward(a);
  std::vector<Numbers> results{h->Read(), h_last->Read(), c_last->Read()};
  if (!trains) return results;
  const auto h_diff = input(all, 5, 1), h_last_diff = input(state, 6, 1);
  const auto c_last_diff = input(state, 7, 1);
  const auto gates_diff = zeros(4 * all), scaled_h = zeros(all);
  const auto h_first_diff = zeros(state), c_first_diff = zeros(state);
  const Array w_diff(device, d.master(), Scaled(weights, 8, 1));
  LstmGradients g;
  g.values = a;
  g.h_diff = *h_diff;
  g.h_last_diff = *h_last_diff;
  g.c_last_diff = *c_last_diff;
  g.gates_diff = *gates_diff;
  g.h_first_diff = *h_first_diff;
  g.c_first_diff = *c_first_diff;
  g.w_diff = w_diff;
  g.scaled_h = *scaled_h;
  g.workspace = workspace;
  op->Backward(g);
  for (const Array* array : {gates_diff.get(), h_first_diff.get(), c_first_diff.get()}) {
    results.push_back(array->Read());
  }
  results.push_back(w_diff.Read());
  // The states before the first step have no gradient if nothing reads it.
  g.h_first_diff = g.c_first_diff = {};
  op->Backward(g);
  results.push_back(gates_diff->Read());
  return results;
}

std::vector<Sizes> SizesOn(const Device& device) {
  std::vector<Sizes> sizes{{4, 3, 6}, {5, 35, 24}};
  if (CompilesSlowly(device)) return sizes;
  sizes.insert(sizes.end(), {{1, 1, 8}, {7, 20, 64}, {6, 1, 128}, {3, 70, 136}, {3, 16, 256}});
  if (!device.info().matrix) return sizes;
  // Several rounds of rows; several groups of sequences; wide registers.
  sizes.insert(sizes.end(), {{3, 70, 1024}, {4, 40, 512}, {4, 32, 512}, {2, 300, 80}});
  return sizes;
}

class LstmTest : public testing::TestWithParam<DeviceType> {};

TEST_P(LstmTest, RowsComputeTheSame) {
  const auto [device, type] = GetParam();
  for (const Sizes& s : SizesOn(*device)) {
    SCOPED_TRACE(testing::Message() << s.steps << "x" << s.items << "x" << s.hidden);
    for (const bool trains : {false, true}) {
      LstmDescriptor d;
      d.steps = s.steps;
      d.items = s.items;
      d.hidden = s.hidden;
      d.type = type;
      d.trains = trains;
      const auto expected = Results(Runtime::Get().cpu(), kDouble, "products", s, trains);
      for (const std::string& library : Multiplexer::LstmLibraries(device, d)) {
        SCOPED_TRACE(library);
        const auto results = Results(device, type, library, s, trains);
        ASSERT_EQ(results.size(), expected.size());
        for (size_t i = 0; i < results.size(); ++i) {
          ExpectNear(results[i], expected[i], 8 * caffe::Tolerance(type),
                     "result " + std::to_string(i));
        }
        EXPECT_EQ(Results(device, type, library, s, trains), results) << "the same bits";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LstmTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(LstmChoiceTest, GroupsThatWaitForEachOtherRunAtOnce) {
  for (Device* device : AllDevices()) {
    if (!device->info().matrix) continue;
    for (const int64_t hidden : {8, 128, 256, 512, 1024}) {
      for (const int64_t items : {1, 16, 32, 100, 1000}) {
        for (const DataType type : {kFloat, kHalf, kBfloat16}) {
          LstmDescriptor d;
          d.steps = 2;
          d.items = items;
          d.hidden = hidden;
          d.type = type;
          const auto division = LstmSteps::ForMatrixUnits(device, d);
          // Weights of 1024 units in float need too many registers.
          ASSERT_EQ(division.has_value(), type != kFloat || hidden < 1024) << d.name();
          if (!division) continue;
          EXPECT_LE(division->parts * division->row_groups, device->info().compute_units);
          EXPECT_GE(division->parts * division->units, hidden);
        }
      }
    }
  }
}

// Many rows keep a device busy in each step; other devices would wait for one group.
TEST(LstmChoiceTest, ProductsComputeManyRows) {
  for (Device* device : AllDevices()) {
    if (device->host_accessible()) continue;
    LstmDescriptor d;
    d.steps = 2;
    d.hidden = 512;
    for (const int64_t items : {1, 32, 100000}) {
      d.items = items;
      const bool joined = device->info().matrix && items < 100;
      EXPECT_EQ(Multiplexer::LstmLibraries(device, d)[0], joined ? "generated" : "products");
    }
  }
}

TEST(LstmChoiceTest, TheCpuComputesStepByStep) {
  LstmDescriptor d;
  d.steps = d.items = d.hidden = 8;
  EXPECT_EQ(Multiplexer::LstmLibraries(Runtime::Get().cpu(), d),
            std::vector<std::string>{"products"});
}

}  // namespace
}  // namespace caffe::test
