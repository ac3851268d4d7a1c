// The mixtures of experts of the OpenCL fork's examples, in its form: nested nets with Input
// layers, one net per expert, the noisy gate, and the regulariser outside.
#include <cmath>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/solver/solver.hpp"
#include "net/net_support.hpp"

namespace caffe {
namespace {

Device* Cpu() { return Runtime::Get().cpu(); }

std::string Types(const std::string& type) {
  return type.empty() ? ""
                      : "bottom_data_type: " + type + " compute_data_type: " + type +
                            " top_data_type: " + type + " ";
}

// A layer with one bottom and one top of its own name.
std::string One(const std::string& name, const std::string& type, const std::string& bottom,
                const std::string& more) {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
         name + "' " + more + " } ";
}

std::string Conv(const std::string& name, const std::string& bottom, int outputs,
                 const std::string& window, double bias, const std::string& types) {
  return One(name, "Convolution", bottom,
             types + "param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }" +
                 Concat("convolution_param { num_output: ", outputs, " ", window,
                        " weight_filler { type: 'gaussian' std: 0.01 } bias_filler { type: "
                        "'constant' value: ",
                        bias, " } }"));
}

std::string Fc(const std::string& name, const std::string& bottom, int outputs, double bias,
               const std::string& types, const std::string& filler = "type: 'gaussian' std: 0.01",
               const std::string& param = "") {
  return One(name, "InnerProduct", bottom,
             types + param +
                 Concat("inner_product_param { num_output: ", outputs, " weight_filler { ", filler,
                        " } bias_filler { type: 'constant' value: ", bias, " } }"));
}

std::string Pool(const std::string& name, const std::string& bottom, int kernel,
                 const std::string& types) {
  return One(name, "Pooling", bottom,
             types + Concat("pooling_param { pool: MAX kernel_size: ", kernel, " stride: 2 }"));
}

std::string Norm(const std::string& name, const std::string& bottom) {
  return One(name, "LRN", bottom,
             Types("CAFFE_FLOAT") + "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }");
}

std::string ToFloat(const std::string& name, const std::string& bottom, const std::string& type) {
  return One(name, "Quantizer", bottom,
             "bottom_data_type: " + type + " top_data_type: CAFFE_FLOAT");
}

std::string Sum(const std::string& name, const std::string& a, const std::string& b) {
  return "layer { name: '" + name + "' type: 'Eltwise' bottom: '" + a + "' bottom: '" + b +
         "' top: '" + name + "' } ";
}

// The regulariser in phase TRAIN, and a reader of its bottoms in phase TEST.
std::string Regulariser(double weight) {
  return Concat(
      "layer { name: 'reg' type: 'EuclideanLoss' bottom: 'observed_count' bottom: 'expected_count' "
      "top: 'reg' loss_weight: ",
      weight,
      " include { phase: TRAIN } } layer { name: 'silence' type: 'Silence' bottom: "
      "'observed_count' "
      "bottom: 'expected_count' include { phase: TEST } } ");
}

// mnist_lenet_moe: 3 of 9 experts.
std::string LenetMoe(int batch, const std::string& type) {
  const std::string t = Types(type), xavier = "type: 'xavier'";
  std::string gating = InputText("ga_input", {batch, 10, 12, 12}) +
                       Fc("ip1", "ga_input", 25, 0, t, xavier) + One("relu1", "ReLU", "ip1", "") +
                       Fc("ip2", "relu1", 9, 0, t, "type: 'constant' value: 0.1") +
                       Fc("ip3", "relu1", 9, 0, t, xavier) + One("relu2", "ReLU", "ip3", "") +
                       One("noise", "Noise", "relu2", "noise_param { sigma: 0.1 }") +
                       Sum("eltwise", "ip2", "noise") + One("softmax", "Softmax", "eltwise", "");
  std::string text =
      InputText("data", {batch, 1, 28, 28}) + InputText("label", {batch}) +
      Conv("conv1", "data", 10, "kernel_size: 5", 0, t) + Pool("pool1", "conv1", 2, t) +
      "layer { name: 'moe' type: 'MOE' bottom: 'pool1' top: 'moe' top: "
      "'observed_count' top: 'expected_count' bottom_data_type: " +
      type + " compute_data_type: " + type +
      " top_data_type: CAFFE_FLOAT moe_param { select_experts: 3 full_forward: false "
      "map_bottom: GATING_AND_EXPERT gating_net { name: 'gating' " +
      gating + " } ";
  for (int e = 0; e < 9; ++e) {
    const std::string p = Concat("ex_", e, "_");
    text += "expert_net { name: '" + p + "' " + InputText(p + "input", {1, 10, 12, 12}) +
            Conv(p + "conv2", p + "input", 5, "kernel_size: 5", 0, t) +
            Pool(p + "pool2", p + "conv2", 2, t) + Fc(p + "ip2", p + "pool2", 25, 0, t, xavier) +
            ToFloat(p + "qu", p + "ip2", type) + " } ";
  }
  return text + " } } " + Regulariser(50) + Fc("ip3", "moe", 10, 0, "", xavier) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip3' bottom: 'label' top: 'loss' "
         "include { phase: TRAIN } } "
         "layer { name: 'pred' type: 'Softmax' bottom: 'ip3' top: 'pred' include { phase: TEST } "
         "} ";
}

std::string CaffenetGate(int batch, const std::string& type) {
  const std::string t = Types(type);
  const std::string fixed_bias = "param { lr_mult: 1 } param { lr_mult: 0 } ";
  return InputText("ga_input", {batch, 48, 27, 27}) +
         Conv("ga_conv2", "ga_input", 64, "kernel_size: 5 pad: 2 group: 2", 0.5, t) +
         One("ga_relu2", "ReLU", "ga_conv2", t) + Pool("ga_pool2", "ga_relu2", 3, t) +
         Norm("ga_norm2", "ga_pool2") + Fc("ga_fc1", "ga_norm2", 128, 0.5, t) +
         One("ga_relu3", "ReLU", "ga_fc1", t) +
         Fc("ga_fc2", "ga_relu3", 16, 0, t, "type: 'gaussian' std: 0.01", fixed_bias) +
         Fc("ga_fc3", "ga_relu3", 16, 0, t, "type: 'gaussian' std: 0.01", fixed_bias) +
         One("ga_relu4", "ReLU", "ga_fc3", "") +
         One("ga_noise", "Noise", "ga_relu4", "noise_param { mu: 0 sigma: 1 }") +
         Sum("ga_eltwise1", "ga_fc2", "ga_noise") +
         Concat(
             "layer { name: 'ga_dummy' type: 'DummyData' top: 'ga_dummy' dummy_data_param { "
             "shape { dim: ",
             batch, " dim: 16 dim: 1 dim: 1 } data_filler { type: 'gaussian' std: 10 } } } ") +
         One("ga_dummy_conv", "Convolution", "ga_dummy",
             t + "param { lr_mult: 0.00001 } param { lr_mult: 0.00001 } convolution_param { "
                 "num_output: 16 kernel_size: 1 group: 16 weight_filler { type: 'constant' value: "
                 "1 "
                 "} }") +
         One("ga_dummy_reshaped", "Reshape", "ga_dummy_conv",
             Concat("reshape_param { shape { dim: ", batch, " dim: 16 } }")) +
         Sum("ga_eltwise2", "ga_eltwise1", "ga_dummy_reshaped") +
         One("ga_softmax", "Softmax", "ga_eltwise2", "");
}

std::string CaffenetExpert(int e, const std::string& type) {
  const std::string t = Types(type), p = Concat("ex_", e, "_"), three = "kernel_size: 3 pad: 1 ";
  return "expert_net { reduced_memory_inference: true name: '" + p + "' " +
         InputText(p + "input", {1, 48, 27, 27}) +
         Conv(p + "conv2", p + "input", 64, "kernel_size: 5 pad: 2 group: 2", 0.5, t) +
         One(p + "relu2", "ReLU", p + "conv2", t) + Pool(p + "pool2", p + "relu2", 3, t) +
         Norm(p + "norm2", p + "pool2") + Conv(p + "conv3", p + "norm2", 96, three, 0, t) +
         One(p + "relu3", "ReLU", p + "conv3", t) +
         Conv(p + "conv4", p + "relu3", 96, three + "group: 2", 0.5, t) +
         One(p + "relu4", "ReLU", p + "conv4", t) +
         Conv(p + "conv5", p + "relu4", 64, three + "group: 2", 0.5, t) +
         One(p + "relu5", "ReLU", p + "conv5", t) + Pool(p + "pool5", p + "relu5", 3, t) +
         Fc(p + "fc6", p + "pool5", 1024, 0.5, t) + One(p + "relu6", "ReLU", p + "fc6", t) +
         "layer { name: '" + p + "drop6' type: 'Dropout' bottom: '" + p + "relu6' top: '" + p +
         "relu6' " + t + " } " + Fc(p + "fc7", p + "relu6", 2048, 0.5, t) +
         ToFloat(p + "qu", p + "fc7", type) + " } ";
}

// imagenet_caffenet_moe: all of 16 experts, of which 4 count.
std::string CaffenetMoe(int batch, const std::string& type) {
  const std::string t = Types(type);
  std::string text =
      "reduced_memory_inference: true " + InputText("data", {batch, 3, 227, 227}) +
      InputText("label", {batch}) + Conv("conv1", "data", 48, "kernel_size: 11 stride: 4", 0, t) +
      One("relu1", "ReLU", "conv1", t) + Pool("pool1", "relu1", 3, t) + Norm("norm1", "pool1") +
      "layer { name: 'moe' type: 'MOE' bottom: 'norm1' top: 'moe' top: 'observed_count' top: "
      "'expected_count' bottom_data_type: " +
      type + " compute_data_type: " + type +
      " top_data_type: CAFFE_FLOAT moe_param { select_experts: 4 full_forward: true gating_net { "
      "reduced_memory_inference: true " +
      CaffenetGate(batch, type) + " } ";
  for (int e = 0; e < 16; ++e) text += CaffenetExpert(e, type);
  text += " } } " + Regulariser(15) + One("relu7", "ReLU", "moe", t) +
          "layer { name: 'drop7' type: 'Dropout' bottom: 'relu7' top: 'relu7' " + t + " } " +
          Fc("fc8", "relu7", 1000, 0, t) +
          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc8' bottom: 'label' top: 'loss' "
          "} ";
  // 77 million random numbers would take most of the time.
  const std::string slow = "type: 'gaussian' std: 0.01", fast = "type: 'constant' value: 0.001";
  for (size_t at; (at = text.find(slow)) != std::string::npos;) text.replace(at, slow.size(), fast);
  return text;
}

// By the fork's solver.
TEST(ForkMoeNetsTest, LenetMoeLoadsAndLearns) {
  SolverParameter parameter;
  ParseTextProto(
      "type: 'Adam' base_lr: 0.001 momentum: 0.95 weight_decay: 0.00005 lr_policy: 'inv' "
      "gamma: 0.001 power: 0.75 max_iter: 2000 random_seed: 3 snapshot_after_train: false",
      "solver", &parameter);
  *parameter.mutable_net_param() = ParseNet(LenetMoe(16, "CAFFE_FLOAT"));
  Solver solver(parameter, Cpu());
  Net* const net = solver.net();
  EXPECT_EQ(net->LayerByName("moe")->blobs().size(), 6 + 9 * 4u);
  FillInputs(net);
  net->Forward();
  const double first = Values(*net, "loss")[0];
  solver.Step(400);
  net->Forward();
  EXPECT_LT(Values(*net, "loss")[0], 0.25 * first) << "the classes of 16 images";
  const auto test = MakeNet(LenetMoe(16, "CAFFE_FLOAT"), Cpu(), 1);
  test->ShareTrainedLayersWith(*net);
  FillInputs(test.get());
  test->Forward();
  const std::vector<double> pred = Values(*test, "pred");
  int right = 0;
  for (int n = 0; n < 16; ++n) right += pred[n * 10 + n % 2] > 0.5;
  EXPECT_GE(right, 14);
}

TEST(ForkMoeNetsTest, LenetMoeInHalf) {
  const auto net = MakeNet(LenetMoe(4, "CAFFE_HALF"), Cpu(), 1);
  FillInputs(net.get());
  net->Forward();
  EXPECT_EQ(net->BlobByName("pool1")->type(), kHalf);
  EXPECT_EQ(net->BlobByName("moe")->type(), kFloat);
  const auto real = MakeNet(LenetMoe(4, "CAFFE_FLOAT"), Cpu(), 1);
  FillInputs(real.get());
  real->Forward();
  ExpectNear(Values(*net, "moe"), Values(*real, "moe"), 0.02, "moe");
}

TEST(ForkMoeNetsTest, CaffenetMoeLoadsAndRuns) {
  const auto net = MakeNet(CaffenetMoe(1, "CAFFE_FLOAT"), Cpu(), 1);
  EXPECT_EQ(net->LayerByName("moe")->blobs().size(), 202u);
  int64_t bytes = 0;
  for (const BlobBase* blob : net->learnable_params()) bytes += blob->bytes();
  EXPECT_NEAR(static_cast<double>(bytes) / 1e6, 309.9, 0.1) << "thesis table 4.2, in 10^6 bytes";
  FillInputs(net.get());
  net->Forward();
  EXPECT_EQ(net->BlobByName("moe")->shape(), (Shape{1, 2048}));
  double sum = 0;
  for (const double value : Values(*net, "observed_count")) sum += value;
  EXPECT_NEAR(sum, 4, 1e-5);
}

TEST(ForkMoeNetsTest, CaffenetMoeTrains) {
  const auto net = MakeNet(CaffenetMoe(2, "CAFFE_FLOAT"), Cpu(), 0);
  FillInputs(net.get());
  net->Forward();
  net->Backward();
  double sum = 0;
  for (const BlobBase* blob : net->learnable_params()) {
    for (const double value : blob->DiffAsDouble()) sum += std::abs(value);
  }
  EXPECT_TRUE(std::isfinite(sum));
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace caffe
