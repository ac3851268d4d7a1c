// Blobs that a forward did not keep have its values when they are read, whatever has changed since,
// and reading one changes no other. Inputs stay as the caller wrote them, also if layers work in
// place.
#include <gtest/gtest.h>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "net/channels_last_library.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

std::string LayerText(const std::string& type, const std::string& name, const std::string& bottom,
                      const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

std::string PowerText(const std::string& name, const std::string& bottom, int scale) {
  return LayerText("Power", name, bottom, name, Concat("power_param { scale: ", scale, " }"));
}

// c = 2 d; then a ReLU, a pooling layer and an inner product, so that c is not stored.
const char* const kChain =
    "layer { name: 'c' type: 'Convolution' bottom: 'd' top: 'c' convolution_param { num_output: 1 "
    "kernel_size: 1 weight_filler { value: 2 } } } layer { name: 'r' type: 'ReLU' bottom: 'c' top: "
    "'r' } layer { name: 'p' type: 'Pooling' bottom: 'r' top: 'p' pooling_param { pool: MAX "
    "kernel_size: 2 stride: 2 } } layer { name: 'ip' type: 'InnerProduct' bottom: 'p' top: 'ip' "
    "inner_product_param { num_output: 1 weight_filler { value: 1 } } } ";

class LateReadsTest : public testing::TestWithParam<Device*> {
 protected:
  std::unique_ptr<Net> Make(const std::string& text, int phase = 1) const {
    return MakeNet(text, GetParam(), phase);
  }
  std::unique_ptr<Net> Chain() const { return Make(InputText("d", {1, 1, 4, 4}) + kChain); }
  static void Set(Net* net, double value) {
    net->BlobByName("d")->SetData(Numbers(net->BlobByName("d")->count(), value));
  }
  static double First(const Net& net, const std::string& blob) { return Values(net, blob)[0]; }
};

TEST_P(LateReadsTest, TheNextInputComesEarly) {
  const auto net = Chain();
  const auto view = net->BlobByName("d")->data_memory()->View();
  for (const bool through_view : {false, true}) {
    Set(net.get(), 1);
    Numbers seen;
    for (int image = 1; image <= 4; ++image) {
      net->Forward();
      if (through_view) {
        std::fill_n(static_cast<float*>(view.get()), 16, image + 1.f);
      } else {
        Set(net.get(), image + 1);
      }
      seen.push_back(First(*net, "c"));
    }
    EXPECT_EQ(seen, (Numbers{2, 4, 6, 8}));
  }
}

TEST_P(LateReadsTest, WeightsChangeBeforeTheRead) {
  const auto net = Chain(), other = Chain();
  other->ShareTrainedLayersWith(*net);
  Set(net.get(), 3);
  BlobBase& weight = *net->LayerByName("c")->blobs()[0];
  NetParameter file;
  net->ToProto(&file);
  const std::vector<std::function<void()>> changes{
      [&] { weight.SetData({5}); },
      [&] { *static_cast<float*>(weight.data_memory()->View().get()) = 5; },
      [&] { *static_cast<float*>(weight.mutable_host_data()) = 5; },
      [&] { other->LayerByName("c")->blobs()[0]->SetData({5}); },
      [&] { net->CopyTrainedLayersFrom(file); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    weight.SetData({i + 1 == changes.size() ? 5.0 : 2.0});
    net->Forward();
    const double wanted = i + 1 == changes.size() ? 15 : 6;
    changes[i]();
    EXPECT_EQ(First(*net, "c"), wanted) << i;
    net->Forward();
    EXPECT_EQ(First(*net, "c"), 21 - wanted) << i;
  }
}

TEST_P(LateReadsTest, AStoredBlobChangesBeforeTheRead) {
  const auto net = Chain();
  net->Keep({"r"});
  Set(net.get(), 3);
  net->Forward();
  net->BlobByName("r")->SetData(Numbers(16, 100));
  EXPECT_EQ(First(*net, "p"), 6);
  EXPECT_EQ(First(*net, "r"), 100);
}

TEST_P(LateReadsTest, APartOfAForwardOnAnotherInput) {
  const auto net = Chain();
  Set(net.get(), 1);
  net->Forward();
  Set(net.get(), 10);
  net->Forward(0, 1);
  EXPECT_EQ(First(*net, "c"), 20);
  EXPECT_EQ(First(*net, "p"), 2);
  EXPECT_EQ(First(*net, "ip"), 8);
}

TEST_P(LateReadsTest, AnotherShapeIsAnErrorWithTheCure) {
  const auto net = Chain();
  Set(net.get(), 1);
  net->Forward();
  net->BlobByName("d")->Reshape({2, 1, 4, 4});
  const std::string message = MessageOf([&] { Values(*net, "c"); });
  EXPECT_TRUE(Holds(message, "net.keep('c')")) << message;
}

// An update of a solver that frees memory copies no weights for reads of its test net.
TEST_P(LateReadsTest, ATestNetIsReadAfterUpdates) {
  const std::string data =
      "layer { name: 'd' type: 'DummyData' top: 'd' top: 't' dummy_data_param { shape { dim: 1 "
      "dim: 1 "
      "dim: 4 dim: 4 } shape { dim: 1 dim: 1 } data_filler { value: 3 } data_filler { value: 1 } } "
      "} ";
  SolverParameter parameter;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "base_lr: 0.001 lr_policy: 'fixed' type: 'SGD' snapshot_after_train: false test_iter: 1 "
      "test_interval: 10 net_param { " +
          data + kChain +
          "layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' bottom: 't' top: 'l' } }",
      &parameter));
  for (const bool frees : {false, true}) {
    Solver solver(parameter, GetParam());
    solver.set_frees_memory(frees);
    solver.Step(3);
    const Net& test = *solver.test_nets()[0];
    double c = 0;
    const std::string message = MessageOf([&] { c = First(test, "c"); });
    if (message.empty()) {
      EXPECT_EQ(c, 6) << "the weights of the test";
    } else {
      EXPECT_TRUE(frees && Holds(message, "net.keep('c')")) << message;
    }
  }
}

TEST_P(LateReadsTest, OneTopLeavesTheOthers) {
  const std::string convolution =
      "convolution_param { num_output: 2 kernel_size: 3 pad: 1 weight_filler { type: 'uniform' "
      "min: -1 "
      "} }";
  const std::string text =
      InputText("d", {2, 4, 3, 3}) +
      "layer { name: 's' type: 'Slice' bottom: 'd' top: 'x' top: 'y' } " + ReluText("r", "y") +
      LayerText("Convolution", "e", "x", "e", convolution) +
      LayerText("Convolution", "f", "y", "f", convolution) +
      LayerText("Convolution", "g", "f", "g", convolution) +
      "layer { name: 'm' type: 'Pooling' bottom: 'd' top: 'max' top: 'mask' pooling_param { pool: "
      "MAX "
      "kernel_size: 2 } } " +
      LayerText("Power", "n", "max", "max", "power_param { scale: 0 shift: 7 }") +
      PowerText("h", "mask", 2);
  const auto net = Make(text), all = Make("force_backward: true " + text);
  for (Net* each : {net.get(), all.get()}) {
    FillInputs(each);
    each->Forward();
  }
  const auto view = net->BlobByName("max")->data_memory()->View();
  for (int pass = 0; pass < 2; ++pass) {
    for (const char* blob : {"x", "mask", "y", "max", "e", "f", "x"}) {
      // With gradients, the libraries of convolutions may be others.
      const double tolerance = GetParam()->info().matrix ? 1e-6 : 0;
      ExpectNear(Values(*net, blob), Values(*all, blob), tolerance, blob);
    }
  }
  EXPECT_EQ(*static_cast<const float*>(view.get()), 7);
}

// Values that the caller writes reach the first of the layers in place, and stays.
TEST_P(LateReadsTest, AnInputThatLayersChangeInPlace) {
  const std::string scale = LayerText("Power", "twice", "data", "data", "power_param { scale: 2 }");
  struct Case {
    std::string text, blob;
    Numbers wanted;
  };
  for (const Case& c : {Case{scale + PowerText("end", "data", 10), "end", {-20, 40, 60}},
                        Case{PowerText("early", "data", 5) + scale + ReluText("relu", "data") +
                                 PowerText("end", "data", 10),
                             "early",
                             {-5, 10, 15}},
                        Case{LayerText("Flatten", "flat", "data", "flat") +
                                 ReluText("relu", "data") + PowerText("end", "flat", 10),
                             "end",
                             {-10, 20, 30}},
                        Case{LayerText("Flatten", "flat", "data", "flat") +
                                 ReluText("relu", "flat") + PowerText("end", "data", 10),
                             "end",
                             {-10, 20, 30}}}) {
    for (const int phase : {0, 1}) {
      for (const char* head : {"", "force_backward: true "}) {
        const auto net = Make(head + InputText("data", {1, 3}) + c.text, phase);
        BlobBase& data = *net->BlobByName("data");
        data.SetData({-1, 2, 3});
        for (int pass = 0; pass < 3; ++pass) {
          net->Forward();
          EXPECT_EQ(Values(*net, c.blob), c.wanted) << c.text << phase << head << pass;
        }
        const Numbers shown = data.DataAsDouble();
        { const auto read = data.data_memory()->View(); }
        net->Forward();
        EXPECT_EQ(Values(*net, c.blob), c.wanted) << "looking at data is not writing";
        data.SetData(shown);
        net->Forward();
        EXPECT_EQ(data.DataAsDouble().size(), shown.size());
        data.Reshape({2, 3});
        data.SetData({-1, 2, 3, -1, 2, 3});
        net->Forward();
        Numbers twice = c.wanted;
        twice.insert(twice.end(), c.wanted.begin(), c.wanted.end());
        EXPECT_EQ(Values(*net, c.blob), twice);
      }
    }
  }
}

TEST_P(LateReadsTest, TheSameValuesAsShownAreAnInput) {
  const auto net = Make(InputText("data", {1, 1}) +
                        LayerText("Power", "twice", "data", "data", "power_param { scale: 2 }"));
  BlobBase& data = *net->BlobByName("data");
  double wanted = 1;
  for (int pass = 0; pass < 4; ++pass) {
    data.SetData({wanted});  // what the blob shows already
    net->Forward();
    wanted *= 2;
    EXPECT_EQ(data.DataAsDouble()[0], wanted);
  }
  const auto view = data.data_memory()->View();
  net->NoteWritten(data);
  net->Forward();
  EXPECT_EQ(data.DataAsDouble()[0], 2 * wanted);
  net->Forward();
  EXPECT_EQ(data.DataAsDouble()[0], 2 * wanted);
}

TEST_P(LateReadsTest, TheGradientOfAnInputThatLayersChangeInPlace) {
  const std::string text = InputText("data", {1, 2}) + PowerText("early", "data", 5) +
                           LayerText("Power", "square", "data", "data", "power_param { power: 2 }");
  for (const char* head : {"", "force_backward: true "}) {
    const auto net = Make(head + text);
    net->BlobByName("data")->SetData({3, 4});
    for (int pass = 0; pass < 2; ++pass) {
      net->Forward();
      net->RequestGradients({"data"});
      net->BlobByName("early")->SetDiff({1, 1});
      net->BlobByName("data")->SetDiff({1, 1});
      net->Backward();
      EXPECT_EQ(net->BlobByName("data")->DiffAsDouble(), (Numbers{11, 13})) << head << pass;
    }
  }
}

// The gradient of `data` in phase TEST, which the net did not expect in its forward, after one of
// `reads` was read and, where `early`, after the next input was written.
class LateGradientsTest : public LateReadsTest {
 protected:
  void ExpectTheGradient(const std::string& text, const std::string& last,
                         const std::vector<std::string>& reads) const {
    const auto all = Make("force_backward: true " + text);
    FillInputs(all.get());
    all->Forward();
    const Numbers seed = TestNumbers(all->BlobByName(last)->count(), 5);
    for (const std::string& read : reads) {
      for (const bool early : {false, true}) {
        const auto net = Make(text);
        FillInputs(net.get());
        net->Forward();
        if (!read.empty()) Values(*net, read);
        BlobBase& data = *net->BlobByName("data");
        if (early) data.SetData(Numbers(data.count(), 1));
        for (Net* each : {net.get(), all.get()}) {
          each->RequestGradients({"data"});
          each->BlobByName(last)->SetDiff(seed);
          each->Backward();
        }
        const Numbers is = data.DiffAsDouble(), wanted = all->BlobByName("data")->DiffAsDouble();
        double largest = 0, difference = 0;
        for (size_t i = 0; i < is.size(); ++i) {
          largest = std::max(largest, std::abs(wanted[i]));
          difference = std::max(difference, std::abs(is[i] - wanted[i]));
        }
        EXPECT_LT(difference, 1e-4 * largest) << read << " " << early << " " << text;
      }
    }
  }
  void ExpectGradientsOfNets() const {
    const std::string convolution =
        "convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: 'uniform' "
        "min: -1 } }";
    const std::string input = InputText("data", {2, 4, 6, 6});
    const std::string c = LayerText("Convolution", "c", "data", "c", convolution);
    const std::string pool = "pooling_param { pool: MAX kernel_size: 2 stride: 2 }";
    // Masks of the forward lie in memory that later steps use.
    ExpectTheGradient(
        input + c +
            "layer { name: 'm' type: 'Eltwise' bottom: 'data' bottom: 'c' top: 'm' eltwise_param { "
            "operation: MAX } } " +
            LayerText("Pooling", "p", "m", "p", pool) +
            LayerText("LRN", "n", "p", "n", "lrn_param { local_size: 3 alpha: 0.5 }") +
            LayerText("Convolution", "c2", "n", "c2", convolution) +
            LayerText("PReLU", "c2r", "c2", "c2") +
            LayerText("Convolution", "c3", "c2", "c3", convolution) +
            InnerProductText("ip", "c3", 3),
        "ip", {"", "m", "p", "c2"});
    // A mask that the forward did not write, and layers in one step.
    ExpectTheGradient(input + LayerText("Pooling", "p", "data", "p", pool), "p", {"", "p"});
    ExpectTheGradient(input + c + LayerText("PReLU", "r", "c", "c"), "c", {"", "c"});
    ExpectTheGradient(
        input + c + LayerText("PReLU", "r", "c", "c") + LayerText("Pooling", "p", "c", "p", pool),
        "p", {"", "c"});
  }
};

TEST_P(LateGradientsTest, TheFirstBackwardInPhaseTest) { ExpectGradientsOfNets(); }

TEST_P(LateGradientsTest, TheFirstBackwardInChannelsLast) {
  AddLibrary(ChannelsLastLibrary("late_channels_last"));
  ExpectGradientsOfNets();
  RemoveLibrary("late_channels_last");
}

std::string NameOfDevice(const testing::TestParamInfo<Device*>& info) {
  std::string name = info.param->info().id;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, LateReadsTest, testing::ValuesIn(TestDevices()), NameOfDevice);
INSTANTIATE_TEST_SUITE_P(All, LateGradientsTest, testing::ValuesIn(TestDevices()), NameOfDevice);

}  // namespace
}  // namespace caffe
