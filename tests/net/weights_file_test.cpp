// A net reads large float arrays from a caffemodel without a copy of them in a message.
#include "caffe/io/weights_file.hpp"

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

const std::string kText = InputText("data", {1, 70}) + InnerProductText("large", "data", 1000) +
                          InnerProductText("small", "large", 3);

TEST(WeightsOfFileTest, AllTypesGetTheNumbersOfTheMessage) {
  const TemporaryFolder folder;
  NetParameter weights;
  MakeNet(kText, Runtime::Get().cpu())->ToProto(&weights);
  const std::string path = folder / "w.caffemodel";
  WriteBinaryProto(path, weights);
  ASSERT_EQ(WeightsFile(path).Elements(0), 70000) << "more than one part for other types";
  for (const char* type : {"FLOAT", "HALF", "DOUBLE"}) {
    const std::string text = Concat(kText, " data_type: CAFFE_", type);
    const auto from_file = MakeNet(text, Runtime::Get().cpu());
    const auto from_message = MakeNet(text, Runtime::Get().cpu());
    for (const auto& blob : from_file->params()) {
      blob->SetData(std::vector<double>(static_cast<size_t>(blob->count()), 9));
    }
    from_file->CopyTrainedLayersFrom(path);
    from_message->CopyTrainedLayersFrom(weights);
    for (size_t b = 0; b < from_file->params().size(); ++b) {
      EXPECT_EQ(from_file->params()[b]->DataAsDouble(), from_message->params()[b]->DataAsDouble())
          << type << " " << b;
    }
  }
}

TEST(WeightsOfFileTest, NothingChangesIfAnArrayDoesNotFit) {
  const TemporaryFolder folder;
  NetParameter weights;
  const auto net = MakeNet(kText, Runtime::Get().cpu());
  net->ToProto(&weights);
  const auto expect_error = [&](const std::string& text) {
    WriteBinaryProto(folder / "w.caffemodel", weights);
    const std::vector<double> before = net->params()[2]->DataAsDouble();
    EXPECT_TRUE(
        Holds(MessageOf([&] { net->CopyTrainedLayersFrom(folder / "w.caffemodel"); }), text));
    EXPECT_EQ(net->params()[2]->DataAsDouble(), before);
  };
  weights.mutable_layer(2)->mutable_blobs(0)->set_data(0, 77);
  weights.mutable_layer(1)->mutable_blobs(0)->mutable_data()->RemoveLast();
  expect_error("layer 'large', parameter 0: ");
  expect_error("needs 70000 elements, but its data in the file has 69999");
  weights.mutable_layer(1)->mutable_blobs(0)->mutable_shape()->set_dim(1, 69);
  expect_error("has shape");
}

}  // namespace
}  // namespace caffe
