// Records of other sizes reshape the whole net, batch after batch.
#include <gtest/gtest.h>

#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

const char* const kLayers =
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
    "num_output: 3 kernel_size: 3 pad: 1 weight_filler { type: 'uniform' min: -1 max: 1 } } } "
    "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' } "
    "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool' pooling_param { pool: AVE "
    "global_pooling: true } } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip' inner_product_param { "
    "num_output: 2 weight_filler { type: 'uniform' min: -1 max: 1 } } } ";

class DataShapesTest : public testing::TestWithParam<DeviceType> {};

TEST_P(DataShapesTest, LaterLayersFollow) {
  Device* device = GetParam().device;
  const TemporaryFolder folder;
  const std::vector<Shape> shapes{{1, 4, 6}, {1, 9, 7}, {1, 9, 7}, {1, 1, 2}};
  const auto writer = CreateDatabase("lmdb", folder / "db");
  std::vector<Datum> records;
  for (size_t n = 0; n < shapes.size(); ++n) {
    records.push_back(TestDatum(n, static_cast<int>(shapes[n][0]), static_cast<int>(shapes[n][1]),
                                static_cast<int>(shapes[n][2])));
    writer->Put(TestKey(n), records.back());
  }
  writer->Finish();
  const auto net = MakeNet("layer { name: 'data' type: 'Data' top: 'data' data_param { source: '" +
                               (folder / "db") + "' backend: LMDB batch_size: 1 } } " + kLayers,
                           device);
  for (int batch = 0; batch < 6; ++batch) {
    const size_t n = batch % shapes.size();
    Shape shape = shapes[n];
    shape.insert(shape.begin(), 1);
    const auto fresh = MakeNet(InputText("data", shape) + kLayers, device);
    std::vector<double> pixels;
    for (const unsigned char byte : records[n].data()) pixels.push_back(byte);
    fresh->BlobByName("data")->SetData(pixels);
    fresh->Forward();
    net->Forward();
    EXPECT_EQ(net->BlobByName("conv")->shape(), Shape({1, 3, shape[2], shape[3]}));
    EXPECT_EQ(Values(*net, "ip"), Values(*fresh, "ip")) << "batch " << batch;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DataShapesTest, testing::ValuesIn(DevicesAndTypes({kFloat})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe
