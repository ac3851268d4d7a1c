#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

// Forward and Backward over some of the layers use the values that a caller wrote to a blob, also
// if casts and splits were inserted around it.
namespace caffe {
namespace {

using Numbers = std::vector<double>;

std::string PowerText(const std::string& name, const std::string& bottom, int scale,
                      const std::string& more = "") {
  return Concat("layer { name: '", name, "' type: 'Power' bottom: '", bottom, "' top: '", name,
                "' power_param { scale: ", scale, " } ", more, " } ");
}

const char kHalf[] = "compute_data_type: CAFFE_HALF top_data_type: CAFFE_HALF";

int LayerOf(const Net& net, const std::string& name) {
  const auto& names = net.layer_names();
  return static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin());
}

class PartialPassTest : public testing::TestWithParam<Device*> {
 protected:
  void Make(const std::string& text, int phase = 1) {
    net_ = MakeNet("force_backward: true " + InputText("x", {2}) + text, GetParam(), phase);
    net_->BlobByName("x")->SetData({1, 2});
  }
  BlobBase& blob(const std::string& name) { return *net_->BlobByName(name); }
  void Forward(const std::string& from, const std::string& to) {
    net_->Forward(LayerOf(*net_, from), LayerOf(*net_, to));
  }
  void Backward(const std::string& from, const std::string& to) {
    net_->Backward(LayerOf(*net_, from), LayerOf(*net_, to));
  }
  std::unique_ptr<Net> net_;
};

TEST_P(PartialPassTest, ForwardReadsThroughACast) {
  Make(PowerText("a", "x", 2, kHalf) + PowerText("b", "a", 3));
  net_->Forward();
  EXPECT_EQ(blob("b").DataAsDouble(), (Numbers{6, 12}));
  blob("a").SetData({10, 20});
  Forward("b", "b");
  EXPECT_EQ(blob("b").DataAsDouble(), (Numbers{30, 60}));
}

TEST_P(PartialPassTest, ForwardReadsThroughASplitAndACast) {
  Make(PowerText("a", "x", 2, kHalf) + PowerText("b", "a", 3) + PowerText("c", "a", 5));
  net_->Forward();
  blob("a").SetData({10, 20});
  Forward("c", "c");
  EXPECT_EQ(blob("c").DataAsDouble(), (Numbers{50, 100}));
  EXPECT_EQ(blob("b").DataAsDouble(), (Numbers{6, 12})) << "b was not asked for";
}

TEST_P(PartialPassTest, BackwardBeginsWithTheDiffThatWasGiven) {
  for (const char* type : {"", kHalf}) {
    Make(PowerText("a", "x", 2, type) + PowerText("b", "a", 3) + PowerText("c", "a", 5));
    net_->Forward();
    blob("a").SetDiff({7, 11});
    Backward("a", "x");
    EXPECT_EQ(blob("x").DiffAsDouble(), (Numbers{14, 22})) << type;
    EXPECT_EQ(blob("a").DiffAsDouble(), (Numbers{7, 11})) << type;
  }
}

TEST_P(PartialPassTest, BackwardBeginsBehindACastThatMakesTheBlob) {
  Make(PowerText("a", "x", 2, "compute_data_type: CAFFE_HALF top_data_type: CAFFE_FLOAT") +
       PowerText("b", "a", 3) + PowerText("c", "a", 5, kHalf));
  net_->Forward();
  EXPECT_EQ(net_->blob_names(), (std::vector<std::string>{"x", "a", "b", "c"}));
  blob("a").SetDiff({7, 11});
  Backward("a", "x");
  EXPECT_EQ(blob("x").DiffAsDouble(), (Numbers{14, 22}));
}

TEST_P(PartialPassTest, BackwardEndsAtTheBlobThatTheUserKnows) {
  for (const char* type : {"", kHalf}) {
    Make(PowerText("a", "x", 2, type) + PowerText("b", "a", 3));
    net_->Forward();
    blob("b").SetDiff({1, 2});
    Backward("b", "b");
    EXPECT_EQ(blob("a").DiffAsDouble(), (Numbers{3, 6})) << type;
  }
}

TEST_P(PartialPassTest, BackwardSumsTheReadersThatTookPart) {
  Make(PowerText("a", "x", 2) + PowerText("b", "a", 3) + PowerText("c", "a", 5) +
       PowerText("d", "a", 7));
  net_->Forward();
  for (const char* name : {"b", "c", "d"}) blob(name).SetDiff({1, 2});
  for (int pass = 0; pass < 2; ++pass) {
    Backward("d", "c");
    EXPECT_EQ(blob("a").DiffAsDouble(), (Numbers{12, 24}));
    // In pieces it comes to the same as at once.
    Backward("b", "x");
    EXPECT_EQ(blob("a").DiffAsDouble(), (Numbers{15, 30}));
    EXPECT_EQ(blob("x").DiffAsDouble(), (Numbers{30, 60}));
  }
  net_->Backward();
  EXPECT_EQ(blob("x").DiffAsDouble(), (Numbers{30, 60}));
}

TEST_P(PartialPassTest, RefusesABlobThatWasReshapedInBetween) {
  Make(PowerText("a", "x", 2) + PowerText("b", "a", 3));
  net_->Forward();
  blob("a").Reshape({1});
  const std::string message = MessageOf([&] { net_->Backward(); });
  EXPECT_TRUE(Holds(message, "reshaped")) << message;
  // A forward gives every blob its shape back.
  net_->Forward();
  EXPECT_EQ(blob("a").shape(), Shape{2});
  EXPECT_EQ(blob("b").DataAsDouble(), (Numbers{6, 12}));
}

TEST_P(PartialPassTest, ATopThatWasReshapedToMoreElementsIsNotReadBeyondItsEnd) {
  net_ = MakeNet(InputText("x", {2, 4}) + InnerProductText("ip", "x", 3) + PowerText("b", "ip", 3),
                 GetParam());
  FillInputs(net_.get());
  net_->Forward();
  const Numbers expected = blob("b").DataAsDouble();
  for (const Shape& shape : {Shape{1, 1}, Shape{100, 100}, Shape{3, 2}}) {
    blob("ip").Reshape(shape);
    net_->Forward();
    EXPECT_EQ(blob("ip").shape(), (Shape{2, 3}));
    EXPECT_EQ(blob("b").DataAsDouble(), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartialPassTest, testing::ValuesIn(TestDevices()),
                         [](const auto& info) {
                           std::string name = info.param->info().id;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

class LossDiffTest : public PartialPassTest {
 protected:
  void SetUp() override {
    net_ = MakeNet("force_backward: true " + InputText("x", {1, 2}) + InputText("y", {1, 2}) +
                       "layer { name: 'l' type: 'EuclideanLoss' bottom: 'x' bottom: 'y' top: 'l' "
                       "loss_weight: 2 } " +
                       PowerText("after", "x", 3),
                   GetParam());
    blob("x").SetData({3, 5});
    net_->Forward();
  }
  Numbers Gradient() {
    Backward("l", "l");
    return blob("x").DiffAsDouble();
  }
};

TEST_P(LossDiffTest, IsTheWeightWhereverBackwardBegins) {
  EXPECT_EQ(Gradient(), (Numbers{6, 10}));
  EXPECT_EQ(Gradient(), (Numbers{6, 10}));
  blob("after").SetDiff({0, 0});
  net_->Backward();
  EXPECT_EQ(blob("x").DiffAsDouble(), (Numbers{6, 10}));
}

TEST_P(LossDiffTest, IsNotAViewThatWasTakenBefore) {
  const auto view = blob("l").diff_memory()->View();
  EXPECT_EQ(Gradient(), (Numbers{6, 10}));
  EXPECT_EQ(*reinterpret_cast<float*>(view.get()), 2);
  *reinterpret_cast<float*>(view.get()) = 0;
  EXPECT_EQ(Gradient(), (Numbers{0, 0}));
}

TEST_P(LossDiffTest, OfTheCallerStays) {
  blob("l").SetDiff({5});
  EXPECT_EQ(Gradient(), (Numbers{15, 25}));
  EXPECT_EQ(Gradient(), (Numbers{15, 25})) << "until another one is written";
  blob("l").SetDiff({2});
  EXPECT_EQ(Gradient(), (Numbers{6, 10}));
  // A view that is not written to changes nothing.
  const auto view = blob("l").diff_memory()->View();
  EXPECT_EQ(Gradient(), (Numbers{6, 10}));
  *reinterpret_cast<float*>(view.get()) = 7;
  EXPECT_EQ(Gradient(), (Numbers{21, 35}));
}

TEST_P(LossDiffTest, OfAnotherShapeIsTheWeightAgain) {
  blob("l").SetDiff({5});
  EXPECT_EQ(Gradient(), (Numbers{15, 25}));
  net_->SetDevice(Runtime::Get().cpu());
  EXPECT_EQ(Gradient(), (Numbers{15, 25})) << "moves with the net";
}

INSTANTIATE_TEST_SUITE_P(All, LossDiffTest, testing::ValuesIn(TestDevices()), [](const auto& info) {
  std::string name = info.param->info().id;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

TEST(NetRandomTest, EveryForwardDrawsAnew) {
  const std::string text =
      InputText("x", {1000}) + "layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'y' ";
  struct Case {
    std::string more;
    int phase;
  };
  // Dropout in a TEST net estimates uncertainty.
  for (const Case& c : {Case{"}", 0}, Case{"phase: TRAIN }", 1}}) {
    for (Device* device : TestDevices()) {
      const auto net = MakeNet("force_backward: true " + text + c.more, device, c.phase);
      net->BlobByName("x")->SetData(Numbers(1000, 1));
      net->Forward();
      const Numbers first = Values(*net, "y");
      net->Forward();
      const Numbers second = Values(*net, "y");
      EXPECT_NE(first, second);
      net->Forward(1, 1);
      const Numbers third = Values(*net, "y");
      EXPECT_NE(second, third);
      net->BlobByName("y")->SetDiff(Numbers(1000, 1));
      net->Backward();
      EXPECT_EQ(net->BlobByName("x")->DiffAsDouble(), third) << "the last mask once more";
    }
  }
}

// A gradient of blobs that no forward has computed would be a number without a meaning.
TEST(BackwardTest, WithoutAForwardIsAnError) {
  const std::string text = InputText("data", {2, 4}) + InputText("label", {2}) +
                           InnerProductText("ip1", "data", 3) + InnerProductText("ip2", "ip1", 2) +
                           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' "
                           "bottom: 'label' top: 'loss' } ";
  for (const int phase : {0, 1}) {
    const std::string force = phase == 0 ? "" : "force_backward: true ";
    const auto net = MakeNet(force + text, Runtime::Get().cpu(), phase);
    FillInputs(net.get());
    const std::string none = MessageOf([&] { net->Backward(); });
    EXPECT_NE(none.find("backward reads what a forward of layer loss (SoftmaxWithLoss) has "
                        "computed, but there was none; call forward first"),
              std::string::npos)
        << none;
    // Layers 0 to 2: the inputs and ip1.
    net->Forward(0, 2);
    EXPECT_NE(MessageOf([&] { net->Backward(); }).find("layer loss"), std::string::npos);
    EXPECT_EQ(MessageOf([&] { net->Backward(2, 0); }), "");
    net->Forward();
    EXPECT_EQ(MessageOf([&] { net->Backward(); }), "");
  }
}

}  // namespace
}  // namespace caffe
