#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "io/foreign_hdf5.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// Row r of "data" is [r, r + 0.25; r + 0.5, r + 0.75], that of "label" is r.
std::string MakeFile(const std::string& path, int first, int rows) {
  std::vector<float> data;
  std::vector<double> labels;
  for (int r = first; r < first + rows; ++r) {
    for (double part : {0.0, 0.25, 0.5, 0.75}) data.push_back(static_cast<float>(r + part));
    labels.push_back(r);
  }
  Hdf5Writer file(path);
  file.Write("data", {rows, 2, 2}, data.data());
  file.Write("label", {rows}, labels.data());
  file.Commit();
  return path;
}

// Files of these numbers of rows, numbered through, and their list.
void MakeFiles(const TemporaryFolder& folder, const std::vector<int>& rows) {
  std::string list;
  int first = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    list += MakeFile(folder / (std::to_string(i) + ".h5"), first, rows[i]) + "\n";
    first += rows[i];
  }
  folder.Put("list.txt", list);
}

std::string Prototxt(const TemporaryFolder& folder, int batch, const std::string& more = "",
                     const std::string& other = "top: 'data' top: 'label'") {
  return Concat("type: 'HDF5Data' ", other, " hdf5_data_param { source: '", folder / "list.txt",
                "' batch_size: ", batch, " ", more, " }");
}

LayerTester MakeLayer(const std::string& prototxt, int tops = 2,
                      Device* device = Runtime::Get().cpu(), DataType type = kFloat,
                      uint64_t seed = 1) {
  return LayerTester(prototxt, device, TypeTriple::Equal(type), {}, tops, seed);
}

std::vector<double> Labels(LayerTester* layer, int count) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    layer->Forward();
    const std::vector<double> labels = layer->Top(1);
    all.insert(all.end(), labels.begin(), labels.end());
    for (size_t r = 0; r < labels.size(); ++r) {
      EXPECT_EQ(layer->Top(0)[4 * r + 3], labels[r] + 0.75);  // rows stay together
    }
  }
  return all;
}

class HDF5DataLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(HDF5DataLayerTest, BatchesGoOverTheEndsOfFiles) {
  const auto [device, type] = GetParam();
  const TemporaryFolder folder;
  MakeFiles(folder, {3, 1, 4});
  LayerTester layer = MakeLayer(Prototxt(folder, 5), 2, device, type);
  EXPECT_EQ(layer.top(0).shape(), Shape({5, 2, 2}));
  EXPECT_EQ(layer.top(1).shape(), Shape({5}));
  for (int batch = 0, row = 0; batch < 5; ++batch) {
    layer.Forward();
    std::vector<double> data, labels;
    for (int i = 0; i < 5; ++i, row = (row + 1) % 8) {
      for (double part : {0.0, 0.25, 0.5, 0.75}) data.push_back(row + part);
      labels.push_back(row);
    }
    std::vector<char> bytes(layer.top(0).bytes());
    device->Download(bytes.data(), layer.top(0).device_data(), layer.top(0).bytes());
    std::vector<double> values(data.size());
    ConvertElements(type, bytes.data(), kDouble, values.data(), values.size());
    ASSERT_EQ(values, data) << "batch " << batch;  // exact in every type
    ASSERT_EQ(layer.Top(1), labels);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HDF5DataLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(HDF5DataLayerOptionsTest, ShufflesFilesAndRowsAnewInEachEpoch) {
  for (const std::vector<int>& files : {std::vector<int>{20}, std::vector<int>{7, 6, 7}}) {
    const TemporaryFolder folder;
    MakeFiles(folder, files);
    const auto labels = [&](uint64_t seed) {
      LayerTester layer =
          MakeLayer(Prototxt(folder, 5, "shuffle: true"), 2, Runtime::Get().cpu(), kFloat, seed);
      return Labels(&layer, 12);
    };
    const std::vector<double> all = labels(1);
    std::vector<std::vector<double>> epochs;
    std::vector<double> sorted(20);
    std::iota(sorted.begin(), sorted.end(), 0);
    for (int i = 0; i < 3; ++i) {
      std::vector<double> epoch(all.begin() + 20 * i, all.begin() + 20 * (i + 1));
      epochs.push_back(epoch);
      std::sort(epoch.begin(), epoch.end());
      EXPECT_EQ(epoch, sorted);
    }
    EXPECT_NE(epochs[0], sorted);
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
    EXPECT_EQ(labels(1), all);
    EXPECT_NE(labels(2), all);
  }
}

TEST(HDF5DataLayerOptionsTest, IntegersAndOneTop) {
  const TemporaryFolder folder;
  {
    Hdf5Writer file(folder / "a.h5");
    file.WriteBytes("codes", std::string("\x01\xff\x00", 3));
    file.Commit();
  }
  // As editors on Windows write it.
  folder.Put("list.txt", "\xef\xbb\xbf\r\n" + folder / "a.h5" + "\r\n");
  LayerTester layer = MakeLayer(Prototxt(folder, 4, "", "top: 'codes'"), 1);
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({1, 255, 0, 1}));
}

TEST(HDF5DataLayerOptionsTest, GoesOnWhereItWas) {
  const TemporaryFolder folder;
  MakeFiles(folder, {4, 5, 2});
  const std::string prototxt = Prototxt(folder, 3, "shuffle: true");
  LayerTester first = MakeLayer(prototxt, 2, Runtime::Get().cpu(), kFloat, 1);
  LayerTester second = MakeLayer(prototxt, 2, Runtime::Get().cpu(), kFloat, 2);
  Labels(&first, 5);
  Labels(&second, 1);
  second.layer().SetRunState(1, first.layer().RunState());
  EXPECT_EQ(Labels(&second, 8), Labels(&first, 8));
}

TEST(HDF5DataLayerErrorsTest, NameFileAndDataset) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& more = "",
                         const std::string& other = "top: 'data' top: 'label'") {
    return ErrorOf([&] { MakeLayer(Prototxt(folder, 2, more, other)); });
  };
  EXPECT_TRUE(Holds(error(), "tested (HDF5Data): File not found: " + folder / "list.txt"));
  folder.Put("list.txt", "\n");
  EXPECT_TRUE(Holds(error(), "the list has no files"));
  folder.Put("list.txt", std::string("a\0b\n", 4));
  EXPECT_TRUE(Holds(error(), "list.txt, line 1: it has a zero byte"));
  folder.Put("list.txt", folder / "none.h5" + "\n");
  EXPECT_TRUE(Holds(error(), "list.txt: File not found: " + folder / "none.h5"));
  MakeFiles(folder, {3, 2});
  EXPECT_EQ(error(), "");
  EXPECT_TRUE(Holds(error("", "top: 'data' top: 'other'"), "no dataset 'other'"));
  EXPECT_TRUE(
      Holds(error("", "top: 'data' top: 'label' transform_param {}"), "does not transform data"));
  EXPECT_TRUE(Holds(ErrorOf([&] { MakeLayer(Prototxt(folder, 0)); }), "batch_size is 0"));
  EXPECT_TRUE(Holds(ErrorOf([] { MakeLayer("type: 'HDF5Data'"); }), "has no source"));
  const std::string whole = folder.Get("1.h5");
  folder.Put("1.h5", whole.substr(0, whole.size() / 2));
  EXPECT_TRUE(Holds(error(), "cannot open " + folder / "1.h5"));
  folder.Put("1.h5", "no HDF5");
  EXPECT_TRUE(Holds(error(), "1.h5 is not an HDF5 file"));
  const std::vector<float> values(12);
  const auto put = [&](const Shape& data, const Shape& label) {
    Hdf5Writer file(folder / "1.h5");
    file.Write("data", data, values.data());
    file.Write("label", label, values.data());
    file.Commit();
    return error();
  };
  EXPECT_TRUE(
      Holds(put({2, 2, 3}, {2}), "1.h5: a row of dataset 'data' has shape 2 3 (6), but in "));
  EXPECT_TRUE(Holds(put({2, 2, 2}, {3}), "dataset 'label' has 3 rows, but 'data' has 2"));
  EXPECT_TRUE(Holds(put({2, 2, 2}, {}), "dataset 'label' has 0 axes"));
  EXPECT_TRUE(Holds(put({0, 2, 2}, {0}), "dataset 'data' has no rows"));
  EXPECT_TRUE(Holds(put({int64_t{1} << 40, 0}, {2}), "a row of dataset 'data' of shape"));
}

TEST(HDF5DataLayerErrorsTest, OtherFilesAreNotReadAndExtentsMustBeStored) {
  const TemporaryFolder folder;
  folder.Put("list.txt", folder / "x.h5" + "\n");
  const auto error = [&](const auto& make) {
    {
      ForeignHdf5 file(folder / "x.h5");
      make(&file);
      file.Values("label", {2}, {0, 1});
    }
    return ErrorOf([&] { MakeLayer(Prototxt(folder, 2)); });
  };
  const std::string secret = folder.Put("secret", "12345678"), file = folder / "x.h5";
  EXPECT_TRUE(Holds(error([&](ForeignHdf5* out) {
                      out->ExternalStorage("data", {2, 1}, secret);
                    }),
                    file + ": dataset 'data' has external storage"));
  MakeFile(folder / "secret.h5", 0, 2);
  EXPECT_TRUE(Holds(
      error([&](ForeignHdf5* out) { out->ExternalLink("data", folder / "secret.h5", "/data"); }),
      file + ": 'data' leads to another file"));
  EXPECT_TRUE(Holds(error([&](ForeignHdf5* out) {
                      out->SetChunks({2, 1 << 10});
                      out->Claim("data", {2, 1 << 29});
                    }),
                    "but the file has only 0 for it"));
}

TEST(HDF5DataLayerErrorsTest, ADamagedPositionIsAnError) {
  const TemporaryFolder folder;
  MakeFiles(folder, {1});
  LayerTester layer = MakeLayer(Prototxt(folder, 2));
  EXPECT_TRUE(Holds(ErrorOf([&] { layer.layer().SetRunState(1, {~uint64_t{0}}); }),
                    "the saved position is invalid"));
  layer.Forward();
}

TEST(HDF5DataLayerErrorsTest, AFileThatGoesAwayComesOutOfForward) {
  const TemporaryFolder folder;
  MakeFiles(folder, {40, 2});
  LayerTester layer =
      MakeLayer(Prototxt(folder, 2, "", "top: 'data' top: 'label' data_param { prefetch: 1 }"));
  std::filesystem::remove(folder / "1.h5");  // long before the thread reads it
  for (int batch = 0; batch < 20; ++batch) layer.Forward();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Holds(ErrorOf([&] { layer.Forward(); }), "tested (HDF5Data): File not found: "));
  }
}

class HDF5OutputLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(HDF5OutputLayerTest, WritesABatch) {
  const auto [device, type] = GetParam();
  const TemporaryFolder folder;
  LayerTester layer("type: 'HDF5Output' hdf5_output_param { file_name: '" + folder / "o.h5" + "' }",
                    device, TypeTriple::Equal(type), {{3, 2, 4}, {3}}, 0);
  EXPECT_EQ(folder.count(), 0u);
  layer.Forward();
  layer.Backward();
  const Hdf5Reader file(folder / "o.h5");
  ASSERT_EQ(file.ShapeOf("data"), Shape({3, 2, 4}));
  ASSERT_EQ(file.ShapeOf("label"), Shape({3}));
  EXPECT_EQ(file.IsDouble("data"), type == kDouble);
  std::vector<double> data(24), labels(3);
  file.Read("data", data.data());
  file.Read("label", labels.data());
  EXPECT_EQ(data, layer.Bottom(0));
  EXPECT_EQ(labels, layer.Bottom(1));
  EXPECT_TRUE(Holds(ErrorOf([&] { layer.Forward(); }), "already has the first batch"));
}

INSTANTIATE_TEST_SUITE_P(All, HDF5OutputLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(HDF5OutputLayerErrorsTest, NameTheReason) {
  const auto error = [](const std::string& file, const std::vector<Shape>& shapes) {
    return ErrorOf([&] {
      LayerTester("type: 'HDF5Output' hdf5_output_param { file_name: '" + file + "' }",
                  Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes, 0);
    });
  };
  EXPECT_TRUE(Holds(error("", {{1}, {1}}), "tested (HDF5Output): hdf5_output_param has no"));
  EXPECT_TRUE(Holds(error("/none/x.h5", {{1}, {1}}), "/none/x.h5"));
  const TemporaryFolder folder;
  EXPECT_TRUE(
      Holds(error(folder / "x.h5", {{2}, {3}}), "blob bottom1 of shape 3 (3) does not have as"));
}

}  // namespace
}  // namespace caffe
