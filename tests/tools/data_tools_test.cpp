// Runs the tools as a user does: arguments in, status and text out.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "caffe.pb.h"
#include "caffe/core/shape.hpp"
#include "caffe/data/databases.hpp"
#include "caffe/io/proto_io.hpp"
#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

struct Outcome {
  int status;
  std::string out, error;
};

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

class DataToolsTest : public testing::Test {
 protected:
  Outcome Run(const std::string& tool, const std::vector<std::string>& arguments) {
    std::string line = Quoted(std::string(CAFFE_BINARY_DIR "/tools/") + tool);
    for (const std::string& argument : arguments) line += " " + Quoted(argument);
    line =
        "CAFFE_LOG=info " + line + " >" + Quoted(folder_ / "out") + " 2>" + Quoted(folder_ / "err");
    const int result = std::system(line.c_str());
    return {WIFEXITED(result) ? WEXITSTATUS(result) : -1, folder_.Get("out"), folder_.Get("err")};
  }
  // It exits with 1 after one line that begins with its name and holds `text`.
  void ExpectError(const std::string& tool, const std::vector<std::string>& arguments,
                   const std::string& text) {
    const Outcome outcome = Run(tool, arguments);
    EXPECT_EQ(outcome.status, 1) << outcome.error;
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    EXPECT_EQ(outcome.error.find(tool + ": "), 0u) << outcome.error;
    EXPECT_TRUE(Holds(outcome.error, text));
  }

  TemporaryFolder folder_;
};

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string Images(int count, int rows, int columns) {
  std::string bytes = BigEndian(2051) + BigEndian(count) + BigEndian(rows) + BigEndian(columns);
  for (int i = 0; i < count * rows * columns; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string Labels(const std::string& labels) {
  return BigEndian(2049) + BigEndian(static_cast<uint32_t>(labels.size())) + labels;
}

TEST_F(DataToolsTest, ConvertMnistData) {
  folder_.Put("images", Images(120, 2, 3));
  folder_.Put("labels", Labels(std::string(119, '\7') + '\xff'));
  const Outcome outcome = Run("convert_mnist_data", {"--backend=lmdb", folder_ / "images",
                                                     folder_ / "labels", folder_ / "db"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_TRUE(Holds(outcome.error, "A total of 120 items."));
  EXPECT_TRUE(Holds(outcome.error, "Rows: 2 Cols: 3"));
  const auto source = OpenDatabase("lmdb", folder_ / "db");
  ASSERT_EQ(source->count(), 120);
  Datum datum;
  for (int n = 0; n < 120; ++n) {
    ASSERT_TRUE(source->Next(&datum));
    EXPECT_EQ(source->key(), TestKey(n));
    EXPECT_EQ(datum.label(), n < 119 ? 7 : 255);
    EXPECT_EQ(Shape({datum.channels(), datum.height(), datum.width()}), Shape({1, 2, 3}));
    ASSERT_EQ(datum.data().size(), 6u);
    EXPECT_EQ(datum.data()[5], static_cast<char>(6 * n + 5));
  }
}

TEST_F(DataToolsTest, ConvertMnistDataErrors) {
  const std::string images = folder_.Put("images", Images(3, 2, 2));
  const std::string labels = folder_.Put("labels", Labels("abc"));
  const std::string db = folder_ / "db", tool = "convert_mnist_data";
  ExpectError(tool, {},
              "usage: convert_mnist_data [--backend=lmdb] image_file label_file output_db");
  ExpectError(tool, {"-resize=3", images, labels, db}, "unknown flag -resize=3");
  ExpectError(tool, {images, labels, "--backend"}, "has no value");
  ExpectError(tool, {"-backend", "leveldb", images, labels, db}, "LevelDB is not supported");
  ExpectError(tool, {folder_ / "none", labels, db}, "none");
  ExpectError(tool, {labels, images, db}, "the order is images, labels, database");
  ExpectError(tool, {folder_.Put("text", "hello"), labels, db}, "not an IDX file of images");
  ExpectError(tool, {folder_.Put("tiny", "a"), labels, db}, "1 bytes are too few");
  ExpectError(tool, {folder_.Put("head", Images(1, 1, 1).substr(0, 9)), labels, db},
              "cut off in its head");
  ExpectError(tool, {folder_.Put("cut", Images(3, 2, 2).substr(0, 20)), labels, db},
              "12 bytes of images, but has 4; it is cut off");
  ExpectError(tool, {images, folder_.Put("two", Labels("ab")), db}, "has 2 labels");
  ExpectError(tool, {folder_.Put("zero", Images(0, 2, 2)), folder_.Put("no", Labels("")), db},
              "0 images");
  EXPECT_FALSE(std::filesystem::exists(db));
  ASSERT_EQ(Run(tool, {images, labels, db}).status, 0);
  ExpectError(tool, {images, labels, db}, "exists already");
}

// Two records a file: the label is the file's number, or 9; pixel i of record n is (n + i) % 256.
std::string CifarBatch(int label) {
  std::string bytes;
  for (int n = 0; n < 2; ++n) {
    bytes += static_cast<char>(n == 0 ? label : 9);
    for (int i = 0; i < 3072; ++i) bytes += static_cast<char>(n + i);
  }
  return bytes;
}

TEST_F(DataToolsTest, ConvertCifarData) {
  for (int i = 1; i <= 5; ++i) {
    folder_.Put("data_batch_" + std::to_string(i) + ".bin", CifarBatch(i));
  }
  folder_.Put("test_batch.bin", CifarBatch(0));
  const std::string folder = folder_.path().string();
  const Outcome outcome = Run("convert_cifar_data", {folder, folder, "lmdb"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  const auto source = OpenDatabase("lmdb", folder_ / "cifar10_train_lmdb");
  ASSERT_EQ(source->count(), 10);
  Datum datum;
  for (int n = 0; n < 10; ++n) {
    ASSERT_TRUE(source->Next(&datum));
    EXPECT_EQ(source->key(), "0000" + std::to_string(n));
    EXPECT_EQ(datum.label(), n % 2 ? 9 : n / 2 + 1);
    EXPECT_EQ(Shape({datum.channels(), datum.height(), datum.width()}), Shape({3, 32, 32}));
    ASSERT_EQ(datum.data().size(), 3072u);
    EXPECT_EQ(datum.data()[3071], static_cast<char>(n % 2 + 3071));
  }
  EXPECT_EQ(OpenDatabase("lmdb", folder_ / "cifar10_test_lmdb")->count(), 2);
}

TEST_F(DataToolsTest, ConvertCifarDataErrors) {
  const std::string folder = folder_.path().string(), tool = "convert_cifar_data";
  ExpectError(tool, {folder}, "usage: convert_cifar_data input_folder output_folder db_type");
  ExpectError(tool, {folder, folder, "lmdb"}, "data_batch_1.bin");
  folder_.Put("data_batch_1.bin", "short");
  ExpectError(tool, {folder, folder, "lmdb"}, "5 bytes are no whole number");
  folder_.Put("data_batch_1.bin", CifarBatch(10));
  ExpectError(tool, {folder, folder, "lmdb"}, "record 0: the label is 10");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cifar10_train_lmdb"));
}

TEST_F(DataToolsTest, ComputeImageMean) {
  const auto writer = CreateDatabase("lmdb", folder_ / "db");
  for (int n : {0, 2}) writer->Put(TestKey(n), TestDatum(n, 2, 1, 2));
  writer->Finish();
  const Outcome outcome = Run("compute_image_mean", {folder_ / "db", folder_ / "mean"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_TRUE(Holds(outcome.error, "mean_value channel [0]: 7.5\n"));
  EXPECT_TRUE(Holds(outcome.error, "mean_value channel [1]: 9.5\n"));
  BlobProto mean;
  ReadBinaryProto(folder_ / "mean", &mean);
  EXPECT_EQ(Shape({mean.num(), mean.channels(), mean.height(), mean.width()}), Shape({1, 2, 1, 2}));
  EXPECT_EQ(std::vector<float>(mean.data().begin(), mean.data().end()),
            std::vector<float>({7, 8, 9, 10}));
}

TEST_F(DataToolsTest, ComputeImageMeanErrors) {
  const std::string tool = "compute_image_mean";
  ExpectError(tool, {folder_ / "none"}, "no such folder");
  ExpectError(tool, {"a", "b", "c"}, "3 arguments are given");
  const auto writer = CreateDatabase("lmdb", folder_ / "mixed");
  writer->Put("a", TestDatum(0, 1, 2, 2));
  writer->Put("b", TestDatum(1, 1, 2, 3));
  writer->Finish();
  const Outcome outcome = Run(tool, {folder_ / "mixed"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(Holds(outcome.error, "record 1 (key b): its shape is 1 2 3"));
}

TEST_F(DataToolsTest, HelpIsNoError) {
  for (const char* tool : {"convert_mnist_data", "compute_image_mean"}) {
    const Outcome outcome = Run(tool, {"--help"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_TRUE(Holds(outcome.out, std::string("usage: ") + tool));
    EXPECT_EQ(outcome.error, "");
  }
}

}  // namespace
}  // namespace caffe
