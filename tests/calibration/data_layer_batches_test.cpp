// Data layers that begin again: each record is read once.
#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/calibration/quantize_net.hpp"
#include "caffe/core/error.hpp"
#include "caffe/data/image.hpp"
#include "caffe/device/runtime.hpp"
#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string ScoreText() { return InnerProductText("score", "data", 4); }

std::string DataText(const std::string& type, const std::string& parameter) {
  return "layer { name: 'd' type: '" + type + "' top: 'data' top: 'label' " + parameter + " } " +
         ScoreText();
}

// The numbers of items of the batches, read twice.
std::vector<int64_t> Items(DataLayerBatches* batches) {
  std::vector<int64_t> items;
  for (int round = 0; round < 2; ++round) {
    items.clear();
    Batch batch;
    for (int64_t i = 0; batches->Read(i, &batch); ++i, batch = {}) {
      items.push_back(batch.shapes.at("data")[0]);
      EXPECT_EQ(ShapeCount(batch.shapes.at("data")),
                static_cast<int64_t>(batch.values.at("data").size()));
      EXPECT_EQ(items.back(), static_cast<int64_t>(batch.values.at("label").size()));
    }
  }
  return items;
}

TEST(DataLayerBatchesTest, RecordsOfADatabaseAreReadOnce) {
  const TemporaryFolder folder;
  MakeDatabase(folder / "db", 25, 1, 2, 2);
  for (const char* skip : {"", "rand_skip: 7"}) {
    const NetParameter model =
        ParseNet(DataText("Data", "data_param { source: '" + (folder / "db") +
                                      "' backend: LMDB batch_size: 10 " + skip + " }"));
    DataLayerBatches batches(model, Runtime::Get().cpu());
    EXPECT_EQ(3, batches.batches());
    EXPECT_EQ((std::vector<int64_t>{10, 10, 5}), Items(&batches)) << skip;
  }
}

TEST(DataLayerBatchesTest, ImagesOfAListAreReadOnce) {
  const TemporaryFolder folder;
  std::string list;
  for (int n = 0; n < 7; ++n) {
    const std::string name = Concat(n, ".png");
    folder.Put(name, EncodeImage({2, 2, 3, std::vector<uint8_t>(12, static_cast<uint8_t>(n))},
                                 ImageFormat::kPng));
    list += Concat(folder / name, " ", n, "\n");
  }
  const NetParameter model =
      ParseNet(DataText("ImageData", "image_data_param { source: '" + folder.Put("list.txt", list) +
                                         "' batch_size: 5 shuffle: true }"));
  DataLayerBatches batches(model, Runtime::Get().cpu());
  EXPECT_EQ((std::vector<int64_t>{5, 2}), Items(&batches));
}

TEST(DataLayerBatchesTest, RecurrentLayersGetWholeBatches) {
  const TemporaryFolder folder;
  MakeDatabase(folder / "db", 11, 1, 1, 2);
  const NetParameter model =
      ParseNet("layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '" +
               (folder / "db") +
               "' backend: LMDB batch_size: 4 } } "
               "layer { name: 'c' type: 'DummyData' top: 'cont' dummy_data_param { shape { dim: 4 "
               "dim: 1 } } } "
               "layer { name: 'l' type: 'LSTM' bottom: 'data' bottom: 'cont' top: 'h'"
               " recurrent_param { num_output: 2 } } ");
  DataLayerBatches batches(model, Runtime::Get().cpu());
  EXPECT_EQ(2, batches.batches());
}

TEST(DataLayerBatchesTest, BatchesAreDivided) {
  const TemporaryFolder folder;
  MakeDatabase(folder / "db", 12, 1, 2, 2);
  const NetParameter model = ParseNet(DataText(
      "Data", "data_param { source: '" + (folder / "db") + "' backend: LMDB batch_size: 2 }"));
  const DataLayerBatches batches(model, Runtime::Get().cpu());
  const auto divided = [&](bool default_number, int64_t calibrate, int64_t compare) {
    QuantizeOptions options;
    options.calibration_batches = calibrate;
    options.held_out_batches = compare;
    batches.Divide(default_number, &options);
    EXPECT_EQ(6, options.batches);
    return std::pair{options.calibration_batches, options.held_out_batches};
  };
  EXPECT_EQ(std::pair(int64_t{3}, int64_t{3}), divided(true, 10, -1));
  EXPECT_EQ(std::pair(int64_t{2}, int64_t{2}), divided(false, 2, -1));
  EXPECT_EQ(std::pair(int64_t{4}, int64_t{2}), divided(false, 4, -1));
  EXPECT_EQ(std::pair(int64_t{4}, int64_t{2}), divided(false, 4, 9));
  EXPECT_TRUE(Holds(ErrorOf([&] { divided(false, 6, -1); }),
                    "layer 'd' (Data) has 12 records, which are 6 batches of 2: none are left"));
}

}  // namespace
}  // namespace caffe
