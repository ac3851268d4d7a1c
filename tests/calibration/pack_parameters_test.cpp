// Parameters of layers that contain nets.
#include "caffe/calibration/pack_parameters.hpp"

#include <gtest/gtest.h>

#include "caffe/device/runtime.hpp"
#include "caffe/net/net_file.hpp"
#include "net/net_support.hpp"

namespace caffe {
namespace {

std::unique_ptr<Net> MixtureNet(DataTypeProto type) {
  NetParameter model = ReadNetFile(CAFFE_SOURCE_DIR "/models/lenet_moe/lenet_moe.prototxt");
  model.set_data_type(type);
  for (LayerParameter& layer : *model.mutable_layer()) {
    if (layer.type() == "Input") layer.mutable_input_param()->mutable_shape(0)->set_dim(0, 2);
    if (!layer.has_moe_param()) continue;
    layer.mutable_moe_param()->mutable_gating_net()->set_data_type(type);
    layer.mutable_moe_param()->mutable_expert_net(0)->set_data_type(type);
    layer.set_top_data_type(CAFFE_FLOAT);
  }
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = TEST;
  options.seed = 3;
  auto net = std::make_unique<Net>(model, options);
  net->BlobByName("data")->SetData(TestNumbers(2 * 28 * 28, 9));
  return net;
}

TEST(PackParametersTest, NetsWithinAMixtureAreStoredInTheirType) {
  const auto exact = MixtureNet(CAFFE_FLOAT);
  exact->set_observe(true);
  exact->Forward();
  NetParameter floats;
  exact->ToProto(&floats);
  const auto bytes = static_cast<double>(floats.ByteSizeLong());
  // Each of 9 experts has a range for each of 30 channels; the nets and biases have 30 kB.
  for (const auto& [type, most] :
       {std::pair{CAFFE_INT8_QUANTIZED, 0.36}, std::pair{CAFFE_INT16_QUANTIZED, 0.6},
        std::pair{CAFFE_HALF, 0.6}}) {
    const auto net = MixtureNet(type);
    net->CopyTrainedLayersFrom(floats);
    net->Forward();
    const std::vector<double> wanted = net->BlobByName("prob")->DataAsDouble();
    NetParameter file;
    net->ToProto(&file);
    PackParameters(*net, &file);
    EXPECT_LT(static_cast<double>(file.ByteSizeLong()) / bytes, most) << DataTypeProto_Name(type);
    // The file has the same codes; their scales are computed again from what the codes mean.
    const auto loaded = MixtureNet(type);
    loaded->CopyTrainedLayersFrom(file);
    loaded->Forward();
    const std::vector<double> found = loaded->BlobByName("prob")->DataAsDouble();
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(wanted[i], found[i], 1e-5) << DataTypeProto_Name(type);
    }
  }
}

}  // namespace
}  // namespace caffe
