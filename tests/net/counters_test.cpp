// The cost of one forward of a deployed net, on every device: one copy each way, one wait, nothing
// built and nothing allocated.
#include "caffe/io/proto_io.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

class CountersTest : public testing::TestWithParam<DeviceType> {};

TEST_P(CountersTest, ADeployedLeNetOnlyEnqueuesWork) {
  const auto [device, type] = GetParam();
  NetParameter parameter = ReadNetParameter(CAFFE_SOURCE_DIR "/models/lenet/lenet.prototxt");
  parameter.mutable_layer(0)->mutable_input_param()->mutable_shape(0)->set_dim(0, 4);
  parameter.set_data_type(static_cast<DataTypeProto>(type.info().proto));
  NetOptions options;
  options.device = device;
  options.phase = TEST;
  options.seed = 1;
  Net net(parameter, options);
  BlobBase* input = net.input_blobs()[0];
  BlobBase* output = net.output_blobs()[0];
  const auto forward = [&](uint64_t seed) {
    input->SetData(TestNumbers(input->count(), seed));
    net.Forward();
    return output->DataAsDouble();
  };
  const auto first = forward(1);
  forward(2);  // warmed up
  device->ResetCounters();
  const auto again = forward(1);
  const DeviceCounters counters = device->counters();
  EXPECT_EQ(again, first);
  double sum = 0;
  for (double probability : again) sum += probability;
  EXPECT_NEAR(sum, 4, 4 * Tolerance(type));  // one distribution for each of four images
  EXPECT_LE(counters.uploads, 1);
  EXPECT_LE(counters.downloads, 1);
  EXPECT_LE(counters.syncs, 1);
  EXPECT_EQ(counters.builds, 0);
  EXPECT_EQ(counters.allocations, 0);
  EXPECT_GT(counters.launches + counters.library_calls, 0);
  if (!device->host_accessible()) {
    EXPECT_EQ(counters.upload_bytes, input->bytes());
    EXPECT_EQ(counters.download_bytes, output->bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(All, CountersTest, testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
