#include <filesystem>

#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/net/net.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// Two layers share their weights; names hold a slash.
const char* const kNet = R"(
  layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 3 } } }
  layer { name: 'block/a' type: 'InnerProduct' bottom: 'data' top: 'a' param { name: 'w' }
          inner_product_param { num_output: 3 weight_filler { type: 'gaussian' }
                                bias_filler { type: 'gaussian' } } }
  layer { name: 'block/b' type: 'InnerProduct' bottom: 'a' top: 'b' param { name: 'w' }
          inner_product_param { num_output: 3 weight_filler { type: 'gaussian' }
                                bias_filler { type: 'gaussian' } } })";

std::unique_ptr<Net> MakeShared(Device* device, int64_t seed, const std::string& more = "") {
  NetOptions options;
  options.device = device;
  options.seed = seed;
  return std::make_unique<Net>(ParseNet(kNet + more), options);
}

std::vector<double> Parameters(const Net& net) {
  std::vector<double> all;
  for (const auto& blob : net.params()) {
    const std::vector<double> values = blob->DataAsDouble();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

class NetHdf5Test : public testing::TestWithParam<DeviceType> {};

TEST_P(NetHdf5Test, WeightsComeBack) {
  const auto [device, type] = GetParam();
  const TemporaryFolder folder;
  const std::string types = Concat(" data_type: ", type.info().proto);
  const auto net = MakeShared(device, 1, types), other = MakeShared(device, 2, types);
  for (const auto& blob : net->params()) {
    blob->SetDiff(std::vector<double>(blob->count(), 0.25));
  }
  net->SaveHDF5(folder / "w.h5", true);
  ASSERT_NE(Parameters(*other), Parameters(*net));
  other->LoadHDF5(folder / "w.h5");
  EXPECT_EQ(Parameters(*other), Parameters(*net));
  EXPECT_EQ(other->params()[0]->DiffAsDouble(), std::vector<double>(9, 0.25));
  // Shared parameters are in the file once, at their owner.
  const Hdf5Reader file(folder / "w.h5");
  EXPECT_EQ(file.Children("/data/block/a"), std::vector<std::string>({"0", "1"}));
  EXPECT_EQ(file.Children("/data/block/b"), std::vector<std::string>({"1"}));
  EXPECT_EQ(file.IsDouble("/data/block/a/0"), type == kDouble);
  // The general way to load, after one in the other format.
  const auto third = MakeShared(device, 3, types);
  third->CopyTrainedLayersFrom(folder / "w.h5");
  EXPECT_EQ(Parameters(*third), Parameters(*net));
}

INSTANTIATE_TEST_SUITE_P(All, NetHdf5Test, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(NetHdf5ErrorsTest, NameFileLayerAndShapes) {
  const TemporaryFolder folder;
  Device* cpu = Runtime::Get().cpu();
  const auto net = MakeShared(cpu, 1);
  const auto error = [&](const std::string& path) { return ErrorOf([&] { net->LoadHDF5(path); }); };
  EXPECT_TRUE(Holds(error(folder / "none.h5"), "File not found: "));
  EXPECT_TRUE(Holds(error(folder.Put("text.h5", "text")), "text.h5 is not an HDF5 file"));
  net->SaveHDF5(folder / "w.h5");
  const std::string whole = folder.Get("w.h5");
  EXPECT_TRUE(Holds(error(folder.Put("cut.h5", whole.substr(0, whole.size() / 2))),
                    "cannot open " + folder / "cut.h5"));
  const auto write = [&](const std::string& dataset, const Shape& shape) {
    const std::vector<float> values(ShapeCount(shape));
    Hdf5Writer file(folder / "other.h5");
    file.Write(dataset, shape, values.data());
    file.Commit();
    return error(folder / "other.h5");
  };
  EXPECT_TRUE(
      Holds(write("/data/block/a/0", {3, 3}), "other.h5: no parameter 1 of layer 'block/a'"));
  EXPECT_TRUE(Holds(write("/data/block/a/2", {3}), "block/a"));
  EXPECT_EQ(write("/data/unknown/0", {3}), "");
  // Shapes that differ: both are named.
  const auto wide = MakeNet(InputText("data", {2, 4}) + InnerProductText("ip", "data", 5), cpu);
  const auto narrow = MakeNet(InputText("data", {2, 3}) + InnerProductText("ip", "data", 5), cpu);
  wide->SaveHDF5(folder / "wide.h5");
  const std::string shapes = ErrorOf([&] { narrow->LoadHDF5(folder / "wide.h5"); });
  EXPECT_TRUE(Holds(shapes, "'ip'"));
  EXPECT_TRUE(Holds(shapes, "5 3 (15)"));
  EXPECT_TRUE(Holds(shapes, "5 4 (20)"));
}

}  // namespace
}  // namespace caffe
