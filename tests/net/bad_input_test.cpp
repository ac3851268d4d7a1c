#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/scoped_variable.hpp"

// Faults of nets: an error that names the layer and the values, before any memory is taken.
namespace caffe {
namespace {

struct BadNet {
  std::string text;
  std::vector<std::string> parts;  // of the message
};

std::string Image(const Shape& shape = {2, 4, 6, 6}) { return InputText("data", shape); }

std::string LayerText(const std::string& type, const std::string& parameter,
                      const std::string& bottoms = "bottom: 'data'") {
  return "layer { name: 'bad' type: '" + type + "' " + bottoms + " top: 'top' " + parameter + " }";
}

std::string ConvolutionText(const std::string& parameter) {
  return Image() + LayerText("Convolution", "convolution_param { " + parameter + " }");
}

std::string PoolingText(const std::string& parameter) {
  return Image() + LayerText("Pooling", "pooling_param { " + parameter + " }");
}

// 2^40 floats; the weights are small. Nothing that takes part has 4 TiB. The forecast, which has
// tests of its own, would say so before the allocator.
TEST(BadNetTest, OutOfMemoryNamesTheBlobAndWhatTheNetNeeds) {
  const ScopedVariable off("CAFFE_MEMORY_CHECK", "off");
  for (Device* device : TestDevices()) {
    SCOPED_TRACE(device->info().id);
    const std::string text =
        "name: 'wide' force_backward: true " + InputText("data", {1 << 20, 2}) +
        LayerText("InnerProduct", "inner_product_param { num_output: 1048576 }");
    const auto net = MakeNet(text, device);
    const MemoryNeeds needs = net->memory_needs();
    EXPECT_EQ(needs.data, (int64_t{1} << 42) + (1 << 23));
    EXPECT_EQ(needs.parameters, 3 << 22);
    EXPECT_EQ(needs.diffs, needs.data);
    EXPECT_EQ(needs.parameter_diffs, needs.parameters);
    const int64_t before = device->bytes_in_use();
    const std::string message = MessageOf([&] { net->Forward(); });
    for (const std::string part : {"bad (InnerProduct)", "out of memory", "top", "4398046511104",
                                   "net wide needs 8796134965248 bytes", "4398054899712 for blobs",
                                   "12582912 for parameters"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
    EXPECT_LT(device->bytes_in_use() - before, 1 << 28);
    net->blobs()[0]->Reshape({2, 2});
    net->Forward();  // usable as before
    EXPECT_EQ(net->blobs()[1]->count(), 1 << 21);
  }
}

TEST(BadNetTest, NamesLayerAndValues) {
  const std::string two = Image({2, 4}) + InputText("other", {2, 5});
  const std::string both = "bottom: 'data' bottom: 'other'";
  const BadNet all[] = {
      {Image() + LayerText("Convolutoin", ""), {"Convolutoin", "Convolution"}},
      {Image() + LayerText("relu", ""), {"relu", "ReLU"}},
      {ConvolutionText("num_output: 3"), {"bad (Convolution)", "kernel"}},
      {ConvolutionText("num_output: 3 kernel_size: 0"), {"bad (Convolution)", "0"}},
      {ConvolutionText("num_output: 0 kernel_size: 3"), {"bad (Convolution)", "num_output"}},
      {ConvolutionText("num_output: 3 kernel_size: 3 stride: 0"), {"bad (Convolution)", "stride"}},
      {ConvolutionText("num_output: 3 kernel_size: 9 pad: 1"), {"bad (Convolution)", "9", "6"}},
      {ConvolutionText("num_output: 6 kernel_size: 3 group: 3"),
       {"bad (Convolution)", "group", "3", "4"}},
      {ConvolutionText("num_output: 3 kernel_size: 3 group: 2"),
       {"bad (Convolution)", "group", "2", "3"}},
      {ConvolutionText("num_output: 3 kernel_size: 3 kernel_size: 3 kernel_size: 3"),
       {"bad (Convolution)", "kernel_size"}},
      {ConvolutionText("num_output: 3 kernel_size: 3 dilation: 0"),
       {"bad (Convolution)", "dilation"}},
      {InputText("data", {1, 1 << 20}) +
           LayerText("InnerProduct", "inner_product_param { num_output: 2000000000 }"),
       {"bad (InnerProduct)"}},
      {PoolingText("pool: MAX"), {"bad (Pooling)", "kernel"}},
      {PoolingText("kernel_size: 2 stride: 0"), {"bad (Pooling)", "stride"}},
      {PoolingText("kernel_size: 2 pad: 2"), {"bad (Pooling)", "pad"}},
      {PoolingText("kernel_size: 9"), {"bad (Pooling)", "9", "6"}},
      {Image() + LayerText("InnerProduct", "inner_product_param { num_output: 0 }"),
       {"bad (InnerProduct)", "num_output"}},
      {Image() + LayerText("InnerProduct", "inner_product_param { num_output: 2 axis: 7 }"),
       {"bad (InnerProduct)", "axis", "7"}},
      {two + LayerText("EuclideanLoss", "", both), {"bad (EuclideanLoss)", "4", "5"}},
      {two + LayerText("Eltwise", "", both), {"bad (Eltwise)", "4", "5"}},
      {two + LayerText("SoftmaxWithLoss", "", both), {"bad (SoftmaxWithLoss)"}},
      {two + LayerText("Concat", "concat_param { axis: 0 }", both), {"bad (Concat)", "4", "5"}},
      {Image() + LayerText("Dropout", "dropout_param { dropout_ratio: 1.5 }"),
       {"bad (Dropout)", "1.5"}},
      {Image() + LayerText("Reshape", "reshape_param { shape { dim: 5 dim: 5 } }"),
       {"bad (Reshape)", "5"}},
      {Image() + LayerText("Slice", "slice_param { slice_point: 9 }", "bottom: 'data' top: 'b'"),
       {"bad (Slice)", "9"}},
      {Image() + LayerText("LRN", "lrn_param { local_size: 4 }"), {"bad (LRN)", "local_size", "4"}},
      {InputText("data", {2, -3}), {"data (Input)", "-3"}},
      {InputText("data", {1 << 30, 1 << 30, 1 << 30}), {"1073741824"}},
      {InputText("data", {4, 4}) +
           LayerText("Python", "python_param { module: 'nowhere_at_all' layer: 'Nothing' }"),
       {"layer bad", "Python"}},
  };
  Device* device = TestDevices()[0];
  for (const BadNet& bad : all) {
    device->ResetCounters();
    const int64_t before = device->bytes_in_use();
    const std::string error = ErrorOf([&] { MakeNet(bad.text, device, 0); });
    EXPECT_NE("", error) << bad.text;
    for (const std::string& part : bad.parts) {
      EXPECT_NE(std::string::npos, error.find(part)) << part << " in: " << error;
    }
    EXPECT_LE(device->bytes_in_use() - before, 1 << 20) << bad.text;
  }
}

}  // namespace
}  // namespace caffe
