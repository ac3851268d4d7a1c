// The casts of published nets in quantized types.
#include <set>

#include "caffe/io/proto_io.hpp"
#include "graph/graph_support.hpp"

namespace caffe {
namespace {

// Casts after the passes of a net in quant8 whose layers of these types are float.
int Casts(const std::string& model, const std::set<std::string>& in_float) {
  NetParameter net =
      ReadNetParameter(std::string(CAFFE_SOURCE_DIR) + "/models/" + model + "/deploy.prototxt");
  net.set_data_type(CAFFE_INT8_QUANTIZED);
  net.mutable_state()->set_phase(TEST);
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (in_float.count(layer.type())) layer.set_compute_data_type(CAFFE_FLOAT);
  }
  int casts = 0;
  for (const TypedLayer& typed : InsertCasts(SeparateInPlace(AssignTypes(FilterNet(net)))).layers) {
    casts += typed.added && typed.layer.type() == "Quantizer" ? 1 : 0;
  }
  return casts;
}

// One cast of the input, and one of the scores before Softmax.
TEST(QuantizedCastsTest, OnlyTheEndsOfNetsAreCast) {
  const std::set<std::string> were_float{"BatchNorm", "Scale", "Eltwise"};
  EXPECT_EQ(Casts("mobilenet_v1", were_float), 56);
  EXPECT_EQ(Casts("mobilenet_v1", {}), 2);
  EXPECT_EQ(Casts("resnet50", were_float), 104);
  EXPECT_EQ(Casts("resnet50", {}), 2);
}

TEST(QuantizedCastsTest, LayersThatCannotRunInCodesStayFloat) {
  const std::string input =
      "layer { name: 'a' type: 'Input' top: 'a' } "
      "layer { name: 'b' type: 'Input' top: 'b' } ";
  const auto type_of = [&](const std::string& layer, const std::string& phase) {
    NetParameter net = ParseNet("data_type: CAFFE_INT16_QUANTIZED state { phase: " + phase + " } " +
                                input + "layer { name: 'x' top: 'y' bottom: 'a' " + layer + " }");
    return AssignTypes(FilterNet(net)).layers.back().types.compute;
  };
  const std::string two = "bottom: 'b' ", four = two + "bottom: 'a' bottom: 'b' ";
  EXPECT_EQ(type_of("type: 'Scale'", "TEST"), kQuant16);
  EXPECT_EQ(type_of("type: 'Scale' " + two, "TEST"), kFloat);
  EXPECT_EQ(type_of("type: 'Bias'", "TEST"), kQuant16);
  EXPECT_EQ(type_of("type: 'Bias' " + two, "TEST"), kFloat);
  EXPECT_EQ(type_of("type: 'BatchNorm'", "TEST"), kQuant16);
  EXPECT_EQ(type_of("type: 'BatchNorm'", "TRAIN"), kFloat);
  const std::string global = "batch_norm_param { use_global_stats: true } ",
                    batch = "batch_norm_param { use_global_stats: false } ";
  EXPECT_EQ(type_of("type: 'BatchNorm' " + global, "TRAIN"), kQuant16);
  EXPECT_EQ(type_of("type: 'BatchNorm' " + batch, "TEST"), kFloat);
  EXPECT_EQ(type_of("type: 'ReLU' relu_param { negative_slope: 0.1 }", "TEST"), kQuant16);
  EXPECT_EQ(type_of("type: 'ReLU' relu_param { negative_slope: -0.1 }", "TEST"), kFloat);
  EXPECT_EQ(type_of("type: 'Upsample'", "TEST"), kQuant16);
  EXPECT_EQ(type_of("type: 'Upsample' " + two, "TEST"), kFloat);
  EXPECT_EQ(type_of("type: 'Eltwise' " + four, "TEST"), kQuant16);
  EXPECT_EQ(type_of("type: 'Eltwise' eltwise_param { operation: PROD } " + two, "TEST"), kQuant16);
  EXPECT_EQ(type_of("type: 'Eltwise' eltwise_param { operation: PROD } " + four, "TEST"), kFloat);
}

}  // namespace
}  // namespace caffe
