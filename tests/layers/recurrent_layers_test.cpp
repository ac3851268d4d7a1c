// LSTM, RNN and GRU: values by the formulas, gradients by differences, in nets.
#include <algorithm>
#include <sstream>

#include "caffe/device/runtime.hpp"
#include "caffe/net/step_info.hpp"
#include "io/temporary_folder.hpp"
#include "layers/recurrence.hpp"
#include "support/devices.hpp"
#include "support/recording.hpp"
#include "support/scoped_variable.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Options = RecurrentNet::Options;

constexpr Recurrence::Kind kKinds[] = {Recurrence::kLSTM, Recurrence::kRNN, Recurrence::kGRU};

Device* Cpu() { return Runtime::Get().cpu(); }

class RecurrentLayersTest : public testing::TestWithParam<DeviceType> {};

// Two forwards: the second continues the sequences of the first.
TEST_P(RecurrentLayersTest, ValuesByTheFormulas) {
  const auto [device, type] = GetParam();
  for (const auto kind : kKinds) {
    for (const bool has_static : {false, true}) {
      for (const bool exposes : {false, true}) {
        SCOPED_TRACE(testing::Message() << TypeName(kind) << has_static << exposes);
        RecurrentNet one(kind, device, type, {has_static, exposes});
        for (int pass = 0; pass < 2; ++pass) {
          one.net->Forward();
          const Numbers expected = one.Expected();
          ExpectNear(Values(*one.net, "y"), expected, 4 * Tolerance(type), "y");
          if (!exposes) continue;
          ExpectNear(Values(*one.net, "hT"), one.h, 4 * Tolerance(type), "hT");
          if (kind == Recurrence::kLSTM) {
            ExpectNear(Values(*one.net, "cT"), one.c, 4 * Tolerance(type), "cT");
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RecurrentLayersTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

double LossOf(Net* net, const NetRunState& state) {
  net->ReadRunState(state);
  net->Forward();
  return Values(*net, "loss")[0];
}

// Checks every element of the blob, by differences, from the state of `state` on.
void CheckGradient(Net* net, const NetRunState& state, BlobBase* blob, const std::string& what) {
  const Numbers analytic = blob->DiffAsDouble(), values = blob->DataAsDouble();
  Numbers numeric;
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < values.size(); ++i) {
    Numbers moved = values;
    moved[i] = values[i] + kStep;
    blob->SetData(moved);
    const double up = LossOf(net, state);
    moved[i] = values[i] - kStep;
    blob->SetData(moved);
    numeric.push_back((up - LossOf(net, state)) / (2 * kStep));
  }
  blob->SetData(values);
  ExpectNear(analytic, numeric, 1e-7, what);
}

// Also with a state of the forward before, through which no gradient flows.
TEST(RecurrentGradientTest, ByDifferences) {
  for (const auto kind : kKinds) {
    for (const bool has_static : {false, true}) {
      for (const bool exposes : {false, true}) {
        SCOPED_TRACE(testing::Message() << TypeName(kind) << has_static << exposes);
        RecurrentNet one(kind, Cpu(), kDouble, {has_static, exposes, 0, "force_backward: true"});
        Net& net = *one.net;
        net.Forward();
        NetRunState state;
        net.WriteRunState(&state);
        net.Forward();
        net.ClearParamDiffs();
        net.Backward();
        for (const auto& blob : one.layer().blobs()) {
          CheckGradient(&net, state, blob.get(), blob->name());
        }
        for (const char* name : {"x", "fixed", "h0", "c0"}) {
          if (net.has_blob(name)) CheckGradient(&net, state, net.BlobByName(name).get(), name);
        }
      }
    }
  }
}

// The gradients of the other float kinds and devices are those of double.
TEST_P(RecurrentLayersTest, Gradients) {
  const auto [device, type] = GetParam();
  for (const auto kind : kKinds) {
    SCOPED_TRACE(TypeName(kind));
    const Options options{true, true, 0, "force_backward: true"};
    RecurrentNet one(kind, device, type, options), exact(kind, Cpu(), kDouble, options);
    for (RecurrentNet* net : {&one, &exact}) {
      net->net->Forward();
      net->net->ClearParamDiffs();
      net->net->Backward();
    }
    for (size_t i = 0; i < one.layer().blobs().size(); ++i) {
      ExpectNear(one.layer().blobs()[i]->DiffAsDouble(), exact.layer().blobs()[i]->DiffAsDouble(),
                 8 * Tolerance(type), "blob " + std::to_string(i));
    }
    for (const char* name : {"x", "fixed", "h0"}) {
      ExpectNear(one.net->BlobByName(name)->DiffAsDouble(),
                 exact.net->BlobByName(name)->DiffAsDouble(), 8 * Tolerance(type), name);
    }
  }
}

// The states after each of three passes, and all gradients.
std::vector<Numbers> ResultsOf(RecurrentNet* one) {
  std::vector<Numbers> results;
  for (int pass = 0; pass < 3; ++pass) {
    one->net->Forward();
    one->net->ClearParamDiffs();
    one->net->Backward();
    for (const char* name : {"y", "hT", "cT"}) {
      if (one->net->has_blob(name)) results.push_back(Values(*one->net, name));
    }
    for (const auto& blob : one->layer().blobs()) results.push_back(blob->DiffAsDouble());
    for (const char* name : {"x", "fixed", "h0", "c0"}) {
      if (one->net->has_blob(name)) results.push_back(one->net->BlobByName(name)->DiffAsDouble());
    }
  }
  return results;
}

// All steps in one launch, as the steps one by one; also where a device prefers another way.
TEST_P(RecurrentLayersTest, StepsAtOnce) {
  const auto [device, type] = GetParam();
  if (device->host_accessible()) GTEST_SKIP() << "the CPU computes step by step";
  for (const bool exposes : {false, true}) {
    for (const int64_t items : {3, 20}) {
      SCOPED_TRACE(testing::Message() << exposes << items);
      // The second one in phase TEST, in which a forward keeps nothing for the gradients.
      Options options{true, exposes, items == 20 ? 1 : 0, "force_backward: true"};
      options.hidden = 16;
      std::vector<std::vector<Numbers>> results;
      for (const char* library : {"lstm=products", "lstm=generated", "lstm=generated"}) {
        const ScopedVariable choice("CAFFE_LIBRARY", library);
        RecurrentNet one(Recurrence::kLSTM, device, type, options, 5, items);
        const bool joined = results.size() > 0;
        const std::vector<StepInfo> steps = one.net->Steps();
        EXPECT_EQ(std::any_of(steps.begin(), steps.end(),
                              [](const auto& s) { return s.layer_types[0] == "LSTMSteps"; }),
                  joined);
        results.push_back(ResultsOf(&one));
      }
      ASSERT_EQ(results[0].size(), results[1].size());
      for (size_t i = 0; i < results[0].size(); ++i) {
        ExpectNear(results[1][i], results[0][i], 8 * Tolerance(type),
                   "result " + std::to_string(i));
      }
      EXPECT_EQ(results[1], results[2]) << "two runs give the same bits";
    }
  }
}

TEST(RecurrentTest, BlobsAreThoseOfBvlc) {
  const auto shapes = [](Recurrence::Kind kind, bool has_static) {
    RecurrentNet one(kind, Cpu(), kFloat, {has_static});
    EXPECT_EQ(one.net->layer_names().size(), has_static ? 6u : 5u);
    EXPECT_EQ(one.net->learnable_params().size(), one.layer().blobs().size());
    std::ostringstream text;
    for (const auto& blob : one.layer().blobs()) {
      for (const int64_t extent : blob->shape()) text << extent << " ";
      text << "/ ";
    }
    return text.str();
  };
  EXPECT_EQ(shapes(Recurrence::kLSTM, false), "24 5 / 24 / 24 6 / ");
  EXPECT_EQ(shapes(Recurrence::kLSTM, true), "24 5 / 24 / 24 2 / 24 6 / ");
  EXPECT_EQ(shapes(Recurrence::kRNN, false), "6 5 / 6 / 6 6 / 6 6 / 6 / ");
  EXPECT_EQ(shapes(Recurrence::kRNN, true), "6 5 / 6 / 6 2 / 6 6 / 6 6 / 6 / ");
  EXPECT_EQ(shapes(Recurrence::kGRU, false), "18 5 / 18 / 18 6 / ");
}

// One product for all steps with x, and one for each step with h.
TEST(RecurrentTest, TheProductWithTheInputIsOne) {
  RecurrentNet one(Recurrence::kLSTM, Cpu(), kFloat, {});
  int64_t products = 0, rows = 0;
  for (const StepInfo& step : one.net->Steps()) {
    if (step.layer_types[0] != "InnerProduct") continue;
    ++products;
    if (step.name().find("x_transform") != std::string::npos) rows = *step.operations;
  }
  EXPECT_EQ(products, 1 + 4);
  EXPECT_GE(rows, 2 * 12 * 5 * 24);
}

TEST(RecurrentTest, TheStateIsCarriedUntilNChanges) {
  RecurrentNet one(Recurrence::kLSTM, Cpu(), kFloat, {});
  Net& net = *one.net;
  net.BlobByName("cont")->SetData(Numbers(12, 1));
  net.Forward();
  const Numbers first = Values(net, "y");
  net.Forward();
  EXPECT_NE(Values(net, "y"), first);
  net.BlobByName("cont")->SetData({0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  net.Forward();
  EXPECT_EQ(Values(net, "y"), first);
  net.BlobByName("cont")->SetData(Numbers(12, 1));
  for (const int64_t items : {2, 3}) {
    net.BlobByName("x")->Reshape({4, items, 5});
    net.BlobByName("cont")->Reshape({4, items});
    net.BlobByName("target")->Reshape({4, items, 6});
    FillInputs(&net, 5);
    net.BlobByName("cont")->SetData(Numbers(4 * items, 1));
    net.Forward();
    EXPECT_EQ(net.BlobByName("y")->shape(), Shape({4, items, 6}));
  }
  EXPECT_EQ(Values(net, "y"), first);
}

TEST(RecurrentTest, TheStateMovesWithTheNet) {
  for (Device* device : TestDevices()) {
    RecurrentNet one(Recurrence::kLSTM, Cpu(), kFloat, {});
    one.net->Forward();
    one.Expected();
    one.net->SetDevice(device);
    one.net->Forward();
    ExpectNear(Values(*one.net, "y"), one.Expected(), 4 * Tolerance(kFloat), "y");
  }
}

// A net whose steps are one layer goes to a device that computes them one by one, and back.
TEST(RecurrentTest, StepsAtOnceMoveWithTheNet) {
  const ScopedVariable choice("CAFFE_LIBRARY", "lstm=generated");
  for (Device* device : TestDevices()) {
    RecurrentNet one(Recurrence::kLSTM, device, kFloat, {false, false, 0});
    RecurrentNet exact(Recurrence::kLSTM, Cpu(), kDouble, {false, false, 0});
    for (Device* place : {device, Cpu(), device}) {
      one.net->SetDevice(place);
      for (RecurrentNet* net : {&one, &exact}) {
        net->net->Forward();
        net->net->ClearParamDiffs();
        net->net->Backward();
      }
      ExpectNear(Values(*one.net, "y"), one.Expected(), 4 * Tolerance(kFloat), "y");
      for (size_t i = 0; i < one.layer().blobs().size(); ++i) {
        ExpectNear(one.layer().blobs()[i]->DiffAsDouble(), exact.layer().blobs()[i]->DiffAsDouble(),
                   8 * Tolerance(kFloat), "gradient");
      }
    }
  }
}

TEST(RecurrentTest, StepsAtOnceOfOtherNumbersOfSequences) {
  for (Device* device : TestDevices()) {
    std::vector<std::vector<Numbers>> results;
    for (const char* library : {"lstm=generated", "lstm=products"}) {
      const ScopedVariable choice("CAFFE_LIBRARY", library);
      RecurrentNet one(Recurrence::kLSTM, device, kFloat, {false, false, 0});
      Net& net = *one.net;
      results.emplace_back();
      for (const int64_t items : {2, 40, 0, 3}) {
        net.BlobByName("x")->Reshape({4, items, 5});
        net.BlobByName("cont")->Reshape({4, items});
        net.BlobByName("target")->Reshape({4, items, 6});
        FillInputs(&net, 5);
        net.BlobByName("cont")->SetData(Numbers(4 * items, 1));
        net.Forward();
        net.ClearParamDiffs();
        net.Backward();
        results.back().push_back(Values(net, "y"));
        results.back().push_back(one.layer().blobs()[2]->DiffAsDouble());
      }
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      ExpectNear(results[0][i], results[1][i], 8 * Tolerance(kFloat), std::to_string(i));
    }
  }
}

TEST(RecurrentTest, RunStatesHaveTheState) {
  RecurrentNet one(Recurrence::kLSTM, Cpu(), kHalf, {});
  one.net->Forward();
  NetRunState state;
  one.net->WriteRunState(&state);
  one.net->Forward();
  const Numbers second = Values(*one.net, "y");
  one.net->Forward();
  EXPECT_NE(Values(*one.net, "y"), second);
  one.net->ReadRunState(state);
  one.net->Forward();
  EXPECT_EQ(Values(*one.net, "y"), second);
  RecurrentNet other(Recurrence::kLSTM, Cpu(), kHalf, {});
  other.net->ReadRunState(state);
  other.net->Forward();
  EXPECT_EQ(Values(*other.net, "y"), second);
}

// A state of another number of sequences is taken when the net has this number.
TEST(RecurrentTest, AStateOfAnotherBatchSize) {
  RecurrentNet large(Recurrence::kGRU, Cpu(), kFloat, {}),
      small(Recurrence::kGRU, Cpu(), kFloat, {}, 4, 2);
  large.net->Forward();
  NetRunState state;
  large.net->WriteRunState(&state);
  large.net->Forward();
  small.net->ReadRunState(state);
  for (const auto& [name, shape] :
       {std::pair<std::string, Shape>{"x", {4, 3, 5}}, {"cont", {4, 3}}, {"target", {4, 3, 6}}}) {
    small.net->BlobByName(name)->Reshape(shape);
    small.net->BlobByName(name)->CopyDataFrom(*large.net->BlobByName(name));
  }
  small.net->Forward();
  EXPECT_EQ(Values(*small.net, "y"), Values(*large.net, "y"));
}

// 2^62 sequences of 4 numbers wrap around to none.
TEST(RecurrentTest, AStateOfADamagedBatchSizeIsAnError) {
  RecurrentNet one(Recurrence::kGRU, Cpu(), kFloat, {});
  one.net->Forward();
  NetRunState state;
  one.net->WriteRunState(&state);
  int changed = 0;
  for (LayerRunState& layer : *state.mutable_layer()) {
    if (layer.value_size() < 2) continue;
    layer.clear_value();
    layer.add_value(uint64_t{1} << 63);
    ++changed;
  }
  ASSERT_GT(changed, 0);
  EXPECT_TRUE(Holds(ErrorOf([&] { one.net->ReadRunState(state); }), "a saved state of 1 numbers"));
}

// The memory plan of training, and layers that run again, change no bit.
TEST(RecurrentTest, MemoryPlanAndRecompute) {
  for (const auto kind : kKinds) {
    for (const DataType type : {kFloat, kHalf}) {
      std::vector<Numbers> results;
      std::vector<int64_t> bytes;
      for (const char* layer : {"", "recompute: true"}) {
        for (const bool frees : {false, true}) {
          RecurrentNet one(kind, Cpu(), type, {true, false, 0, "", layer}, 12);
          one.net->set_frees_memory(frees);
          Numbers all;
          for (int pass = 0; pass < 3; ++pass) {
            one.net->ClearParamDiffs();
            one.net->ForwardBackward();
            for (const BlobBase* blob : one.net->learnable_params()) {
              const Numbers diff = blob->DiffAsDouble();
              all.insert(all.end(), diff.begin(), diff.end());
            }
          }
          results.push_back(all);
          if (frees) bytes.push_back(one.net->memory_needs().data);
        }
      }
      for (const Numbers& result : results) EXPECT_EQ(result, results[0]);
      EXPECT_LT(bytes[1], bytes[0]) << "recompute saves memory";
    }
  }
}

// A recorded forward changes the state in each replay, also after the host has read it.
TEST(RecurrentTest, ForwardsAreReplayed) {
  for (const RecordedOn& on : RecordingDevices()) {
    Recording one_device(on);
    Device* const recording = one_device.device();
    for (const auto kind : kKinds) {
      RecurrentNet one(kind, recording, kFloat, {});
      for (int pass = 0; pass < 8; ++pass) {
        recording->ResetCounters();
        one.net->Forward();
        if (pass > 4) {
          EXPECT_EQ(recording->counters().graph_launches, 1) << pass;
        }
        ExpectNear(Values(*one.net, "y"), one.Expected(), 4 * Tolerance(kFloat), "y");
        if (pass != 5) continue;
        NetRunState state;
        one.net->WriteRunState(&state);
        one.net->ReadRunState(state);
      }
    }
  }
}

// The steps share the copies of their weights.
TEST(RecurrentTest, DerivedWeightsDoNotGrowWithTheSteps) {
  for (const auto kind : {Recurrence::kLSTM, Recurrence::kGRU}) {
    for (const DataType type : {kFloat, kHalf}) {
      for (const int phase : {0, 1}) {
        std::vector<int64_t> bytes;
        for (const int64_t steps : {3, 9}) {
          RecurrentNet one(kind, Cpu(), type, {false, false, phase}, steps);
          one.net->Forward();
          bytes.push_back(one.net->memory_needs().derived);
        }
        EXPECT_EQ(bytes[0], bytes[1]) << TypeName(kind) << type.name() << phase;
        if (type == kHalf) {
          EXPECT_GT(bytes[0], 0);
        }
      }
    }
  }
}

TEST(RecurrentTest, OneStepWithExposedStates) {
  RecurrentNet one(Recurrence::kLSTM, Cpu(), kFloat, {false, true, 1, "", ""}, 1);
  one.net->Forward();
  EXPECT_EQ(Values(*one.net, "hT"), Values(*one.net, "y"));
  EXPECT_NE(one.net->BlobByName("hT")->data_memory(), one.net->BlobByName("y")->data_memory());
}

// The net's debug_info writes lines of nested layers, and that of the layer only these.
TEST(RecurrentTest, DebugLines) {
  const auto lines = [](const std::string& net, const std::string& recurrent) {
    RecurrentNet one(Recurrence::kLSTM, Cpu(), kFloat, {false, false, 1, net, "", recurrent});
    testing::internal::CaptureStderr();
    one.net->Forward();
    return testing::internal::GetCapturedStderr();
  };
  const std::string unit = "[Forward] Layer lstm/unit_1, top blob lstm/h_1 data: ";
  const std::string own = "[Forward] Layer lstm, top blob y data: ";
  const auto holds = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string none = lines("", ""), all = lines("debug_info: true", "");
  const std::string nested = lines("", "debug_info: true");
  EXPECT_FALSE(holds(none, unit) || holds(none, own)) << none;
  EXPECT_TRUE(holds(all, unit) && holds(all, own)) << all;
  EXPECT_TRUE(holds(nested, unit)) << nested;
  EXPECT_FALSE(holds(nested, own)) << nested;
}

TEST(RecurrentTest, ErrorsNameTheShapes) {
  const auto message = [](const std::string& bottoms, const std::string& tops,
                          const std::string& parameter) {
    return MessageOf([&] {
      MakeNet(InputText("x", {4, 3, 5}) + InputText("cont", {4, 3}) + InputText("few", {3, 3}) +
                  "layer { name: 'lstm' type: 'LSTM' " + bottoms + tops + " recurrent_param { " +
                  parameter + " } }",
              Cpu());
    });
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const std::string both = "bottom: 'x' bottom: 'cont' ";
  expect(message(both, "top: 'y'", ""), "lstm (LSTM): num_output of recurrent_param must be given");
  expect(message("bottom: 'x' bottom: 'few' ", "top: 'y'", "num_output: 2"),
         "lstm (LSTM): cont must have the shape 4 3");
  expect(message(both, "top: 'y' top: 'h'", "num_output: 2"), "has 1 tops, but the net names 2");
  expect(message("bottom: 'x' ", "top: 'y'", "num_output: 2"),
         "takes 2 to 5 bottom blob(s), but the net gives 1");
  expect(message(both, "top: 'y' top: 'h' top: 'c'", "num_output: 2 expose_hidden: true"),
         "2 first states because of expose_hidden; the net gives 2 bottoms");
  RecurrentNet one(Recurrence::kLSTM, Cpu(), kFloat, {});
  one.net->BlobByName("x")->Reshape({5, 3, 5});
  one.net->BlobByName("cont")->Reshape({5, 3});
  expect(MessageOf([&] { one.net->Forward(); }),
         "lstm (LSTM): was set up for 4 time steps, but x has shape 5 3 5");
}

}  // namespace
}  // namespace caffe
