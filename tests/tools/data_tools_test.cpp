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
#include "data/test_images.hpp"
#include "io/temporary_folder.hpp"
#include "support/scoped_variable.hpp"
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

TEST_F(DataToolsTest, VersionHelpAndTheFlagsOfTheLog) {
  const std::string images = folder_.Put("images", Images(2, 2, 2));
  const std::string labels = folder_.Put("labels", Labels("ab"));
  for (const std::string tool :
       {"convert_mnist_data", "convert_cifar_data", "convert_imageset", "compute_image_mean"}) {
    for (const char* flag : {"--version", "-version"}) {
      const Outcome version = Run(tool, {flag});
      EXPECT_EQ(version.status, 0) << version.error;
      EXPECT_EQ(version.out.find(tool + " version "), 0u) << version.out;
      EXPECT_EQ(version.error, "");
    }
    EXPECT_TRUE(Holds(Run(tool, {"--help"}).out, "usage: " + tool));
    ExpectError(tool, {"-log_dir", "/no/such"}, "no log files can be written to /no/such");
  }
  const Outcome quiet =
      Run("convert_mnist_data", {"-minloglevel=1", images, labels, folder_ / "a"});
  EXPECT_EQ(quiet.status, 0);
  EXPECT_EQ(quiet.error, "");
  const Outcome logged = Run(
      "convert_mnist_data",
      {"-log_dir", folder_.path().string(), "-stderrthreshold=2", images, labels, folder_ / "b"});
  EXPECT_EQ(logged.status, 0);
  EXPECT_EQ(logged.error, "");
  EXPECT_TRUE(Holds(folder_.Get("convert_mnist_data.INFO"), "] A total of 2 items.\n"));
}

TEST_F(DataToolsTest, ConvertMnistDataErrors) {
  const std::string images = folder_.Put("images", Images(3, 2, 2));
  const std::string labels = folder_.Put("labels", Labels("abc"));
  const std::string db = folder_ / "db", tool = "convert_mnist_data";
  ExpectError(tool, {},
              "usage: convert_mnist_data [--backend=lmdb] image_file label_file output_db");
  ExpectError(tool, {"-resize=3", images, labels, db},
              "unknown command line flag 'resize'; usage: ");
  ExpectError(tool, {images, labels, "--backend"}, "flag --backend needs a value; usage: ");
  ExpectError(tool, {"-backend", "leveldb", images, labels, db}, "LevelDB is not supported");
  ExpectError(tool, {folder_ / "none", labels, db}, "none");
  ExpectError(tool, {labels, images, db}, "the order is images, labels, database");
  ExpectError(tool, {folder_.Put("text", "hello"), labels, db}, "not an IDX file of images");
  ExpectError(tool, {folder_.Put("tiny", "a"), labels, db}, "1 bytes are too few");
  ExpectError(tool, {folder_.Put("head", Images(1, 1, 1).substr(0, 9)), labels, db},
              "its header is cut off");
  ExpectError(tool, {folder_.Put("cut", Images(3, 2, 2).substr(0, 20)), labels, db},
              "12 bytes of images, but has 4; it is cut off");
  ExpectError(tool, {images, folder_.Put("two", Labels("ab")), db}, "has 2 labels");
  ExpectError(tool, {folder_.Put("zero", Images(0, 2, 2)), folder_.Put("no", Labels("")), db},
              "0 images");
  EXPECT_FALSE(std::filesystem::exists(db));
  ASSERT_EQ(Run(tool, {images, labels, db}).status, 0);
  ExpectError(tool, {images, labels, db}, "exists already");
}

// As gzip stores bytes that it cannot make smaller; without the checksum at the end.
std::string Gzip(const std::string& bytes) {
  std::string file("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  for (size_t at = 0; at < bytes.size(); at += 65535) {
    const std::string part = bytes.substr(at, 65535);
    const auto size = static_cast<uint16_t>(part.size());
    file += '\0';
    for (const uint16_t word : {size, static_cast<uint16_t>(~size)}) {
      file += static_cast<char>(word);
      file += static_cast<char>(word >> 8);
    }
    file += part;
  }
  return file;
}

TEST_F(DataToolsTest, HowMuchIsUnpackedIsLimited) {
  const std::string labels = folder_.Put("labels", Labels("abc"));
  const std::string images = folder_.Put("images", Gzip(Images(3, 1024, 1024)));
  {
    const ScopedVariable limit("CAFFE_MAX_UNPACKED", "2");
    ExpectError("convert_mnist_data", {images, labels, folder_ / "db"},
                images +
                    ": its 3145999 bytes unpack to more than 2 MiB; the limit is 2 MiB; "
                    "CAFFE_MAX_UNPACKED changes it");
  }
  ExpectError("convert_mnist_data", {images, labels, folder_ / "db"}, "damaged or cut off");
  const std::string more = folder_.Put("more", Gzip(Images(3, 10, 10) + std::string(9 << 20, 'x')));
  ExpectError("convert_mnist_data", {more, labels, folder_ / "db"},
              more + ": it unpacks to more than the 316 bytes that its header announces");
  ExpectError("convert_mnist_data",
              {folder_.Put("zeros", Gzip(std::string(9 << 20, 0))), labels, folder_ / "db"},
              "not an IDX file of images: it begins with 0");
  const ScopedVariable limit("CAFFE_MAX_UNPACKED", "2G");
  const Outcome outcome = Run("convert_mnist_data", {images, labels, folder_ / "db"});
  EXPECT_TRUE(Holds(outcome.error, "CAFFE_MAX_UNPACKED is 2G, which is not a number of MiB"));
}

TEST_F(DataToolsTest, LargeImagesOfIdxFilesAreRefused) {
  const ScopedVariable limit("CAFFE_MAX_PIXELS", "1000");
  ExpectError("convert_mnist_data",
              {folder_.Put("images", Images(1, 40, 50)), folder_.Put("labels", Labels("a")),
               folder_ / "db"},
              "images: each image has 40 x 50 pixels; the limit is 1000 pixels");
}

// The status of a command in a folder that holds 300 kB; 77 if there is none for this user.
TEST_F(DataToolsTest, AFullDiskIsNamed) {
  if (std::system("unshare -rm true 2>/dev/null") != 0) {
    GTEST_SKIP() << "this user cannot mount a folder in memory";
  }
  std::filesystem::create_directory(folder_ / "full");
  const std::string images = folder_.Put("images", Images(3000, 28, 28));
  const std::string labels = folder_.Put("labels", Labels(std::string(3000, '\1')));
  const auto run = [&](const std::string& before, const std::string& tool) {
    const std::string script = Concat(
        "mount -t tmpfs -o size=300k none ", folder_ / "full", " || exit 77; cd ", folder_ / "full",
        "; ", before, "; ", CAFFE_BINARY_DIR "/tools/", tool, "; status=$?; ls; exit $status");
    const int result = std::system(
        Concat("unshare -rm sh -c ", Quoted(script), " >", folder_ / "out", " 2>", folder_ / "err")
            .c_str());
    return WIFEXITED(result) ? WEXITSTATUS(result) : -1;
  };
  const std::string convert = Concat("convert_mnist_data ", images, " ", labels, " db");
  const int status = run("true", convert);
  if (status == 77) GTEST_SKIP() << "this user cannot mount a folder in memory";
  EXPECT_EQ(status, 1);
  EXPECT_TRUE(Holds(folder_.Get("err"), "LMDB db: writing: No space left on device"));
  EXPECT_EQ(folder_.Get("out"), "");  // nothing is left over
  // Without any room LMDB would end the process when it writes its lock file.
  EXPECT_EQ(run("head -c 400k /dev/zero >fill 2>err", convert), 1);
  EXPECT_TRUE(Holds(folder_.Get("err"), "No space left on device"));
  EXPECT_EQ(folder_.Get("out"), "err\nfill\n");
  // A database on a full disk can be read.
  MakeDatabase(folder_ / "some", 10, 1, 28, 28);
  const std::string copy = Concat("mkdir db; cp ", folder_ / "some/data.mdb",
                                  " db; head -c 400k /dev/zero >fill 2>/dev/null");
  EXPECT_EQ(run(copy, "compute_image_mean db"), 0) << folder_.Get("err");
  EXPECT_EQ(run(copy, "compute_image_mean db mean"), 1);
  EXPECT_TRUE(Holds(folder_.Get("err"), "No space left on device"));
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
  ExpectError(tool, {folder, folder, "lmdb"}, "5 bytes are not a multiple");
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
  ExpectError(tool, {folder_ / "none"}, "the folder does not exist");
  ExpectError(tool, {"a", "b", "c"}, "3 arguments are given");
  folder_.Put("data.mdb", "records");
  ExpectError(tool, {folder_ / "", folder_ / "./data.mdb"}, "would replace the input");
  const auto writer = CreateDatabase("lmdb", folder_ / "mixed");
  writer->Put("a", TestDatum(0, 1, 2, 2));
  writer->Put("b", TestDatum(1, 1, 2, 3));
  writer->Finish();
  const Outcome outcome = Run(tool, {folder_ / "mixed"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(Holds(outcome.error, "record 1 (key b): the record's shape is 1 2 3"));
}

TEST_F(DataToolsTest, ComputeImageMeanOfEncodedImages) {
  const auto writer = CreateDatabase("lmdb", folder_ / "db");
  writer->Put("a", EncodedDatum(PngOf({1, 2, 3, {10, 20, 30, 40, 50, 60}})));
  writer->Put("b", EncodedDatum(PngOf({1, 2, 3, {11, 22, 33, 44, 55, 66}})));
  writer->Finish();
  const Outcome outcome = Run("compute_image_mean", {folder_ / "db", folder_ / "mean"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  BlobProto mean;
  ReadBinaryProto(folder_ / "mean", &mean);
  EXPECT_EQ(Shape({mean.channels(), mean.height(), mean.width()}), Shape({3, 1, 2}));
  EXPECT_EQ(std::vector<float>(mean.data().begin(), mean.data().end()),
            std::vector<float>({10.5f, 42, 21, 52.5f, 31.5f, 63}));
  const auto bad = CreateDatabase("lmdb", folder_ / "bad");
  bad->Put("a", EncodedDatum("text"));
  bad->Finish();
  EXPECT_TRUE(Holds(Run("compute_image_mean", {folder_ / "bad"}).error,
                    "record 0 (key a): the encoded image is neither a JPEG nor a PNG file; "));
}

struct Stored {
  std::string key;
  Datum datum;
};

std::vector<Stored> Records(const std::string& path) {
  const auto source = OpenDatabase("lmdb", path);
  std::vector<Stored> all;
  for (Stored record; source->Next(&record.datum); all.push_back(record))
    record.key = source->key();
  return all;
}

std::string PlanesOf(const Image& image) {
  Datum datum;
  SetPixels(image, &datum);
  return datum.data();
}

// A JPEG file with an Exif block that says how to turn it.
std::string Oriented(const std::string& jpeg, int orientation) {
  std::string block = std::string("\xff\xe1\x00\x22", 4) +
                      std::string("Exif\0\0MM\0*\0\0\0\10", 14) +
                      std::string("\0\1\1\x12\0\3\0\0\0\1\0", 11);
  block += static_cast<char>(orientation);
  return jpeg.substr(0, 2) + block + std::string(6, '\0') + jpeg.substr(2);
}

class ConvertImagesetTest : public DataToolsTest {
 protected:
  void SetUp() override {
    folder_.Put("color.png", PngOf(color_));
    folder_.Put("gray.png", PngOf(gray_));
    folder_.Put("color.jpg", jpeg_);
    List("color.png 3\ngray.png 1\ncolor.jpg 2\n");
  }
  void List(const std::string& text) { list_ = folder_.Put("list", text); }
  // The records that the tool makes of the list; its log is in log_.
  std::vector<Stored> Convert(std::vector<std::string> flags) {
    const std::string db = folder_ / ("db" + std::to_string(count_++));
    flags.insert(flags.end(), {folder_ / "", list_, db});
    const Outcome outcome = Run("convert_imageset", flags);
    log_ = outcome.error;
    EXPECT_EQ(outcome.status, 0) << log_;
    return outcome.status == 0 ? Records(db) : std::vector<Stored>(3);
  }

  const Image color_ = TestImage(6, 8, 3), gray_ = TestImage(6, 8, 1);
  const std::string jpeg_ = EncodeImage(TestImage(6, 8, 3, 50), ImageFormat::kJpeg);
  std::string list_, log_;
  int count_ = 0;
};

TEST_F(ConvertImagesetTest, StoresPixels) {
  for (const bool color : {true, false}) {
    const std::vector<Stored> records =
        Convert(color ? std::vector<std::string>() : std::vector<std::string>{"-gray"});
    EXPECT_TRUE(Holds(log_, "] A total of 3 images."));
    EXPECT_TRUE(Holds(log_, "] Processed 3 files."));
    ASSERT_EQ(records.size(), 3u);
    const char* const names[] = {"color.png", "gray.png", "color.jpg"};
    const int labels[] = {3, 1, 2};
    for (int i = 0; i < 3; ++i) {
      const Datum& datum = records[i].datum;
      EXPECT_EQ(records[i].key, TestKey(i) + "_" + names[i]);
      EXPECT_EQ(datum.label(), labels[i]);
      EXPECT_FALSE(datum.encoded());
      EXPECT_EQ(Shape({datum.channels(), datum.height(), datum.width()}),
                Shape({color ? 3 : 1, 6, 8}));
      EXPECT_EQ(datum.data(), PlanesOf(DecodeImage(folder_.Get(names[i]), names[i], color)));
    }
  }
}

TEST_F(ConvertImagesetTest, LimitsAreVariables) {
  const ScopedVariable pixels("CAFFE_MAX_PIXELS", "47");
  const Outcome outcome = Run("convert_imageset", {folder_ / "", list_, folder_ / "db"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(Holds(outcome.error, "list, line 1: " + (folder_ / "color.png") +
                                       " has 6 x 8 pixels; the limit is 47 pixels; "
                                       "CAFFE_MAX_PIXELS changes it; the image is skipped"));
  ExpectError("convert_imageset",
              {"-resize_height=7", "-resize_width=7", folder_ / "", list_, folder_ / "db"},
              "an image of --resize_height and --resize_width has 7 x 7 pixels; the limit is 47");
}

TEST_F(ConvertImagesetTest, ListsOfWindowsAreRead) {
  List(
      "\xef\xbb\xbf"
      "color.png 3\r\ngray.png 1\r\ncolor.jpg 2");
  EXPECT_EQ(Convert({}).size(), 3u);
  List(std::string("color.png 3\0\n", 13));
  ExpectError("convert_imageset", {folder_ / "", list_, folder_ / "db"},
              "line 1: it has a zero byte");
}

TEST_F(ConvertImagesetTest, Resizes) {
  const std::vector<Stored> records = Convert({"--resize_height=5", "-resize_width", "3"});
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].datum.data(), PlanesOf(ResizeBilinear(color_, 5, 3)));
  EXPECT_EQ(records[2].datum.height(), 5);
  EXPECT_EQ(records[2].datum.width(), 3);
}

TEST_F(ConvertImagesetTest, KeepsFilesThatHoldWhatIsAskedFor) {
  const std::string turned = folder_.Get(
      std::filesystem::path(folder_.Put("turned.jpg", Oriented(jpeg_, 6))).filename().string());
  folder_.Put("upright.jpg", Oriented(jpeg_, 1));
  ASSERT_EQ(DecodeImage(turned, "turned", true).height, 8);
  List("color.png 3\ngray.png 1\ncolor.jpg 2\nturned.jpg 4\nupright.jpg 5\n");
  std::vector<Stored> records = Convert({"-encoded"});
  ASSERT_EQ(records.size(), 5u);
  for (const Stored& record : records) EXPECT_TRUE(record.datum.encoded());
  EXPECT_EQ(records[0].datum.label(), 3);
  EXPECT_EQ(records[0].datum.data(), folder_.Get("color.png"));
  EXPECT_EQ(records[2].datum.data(), jpeg_);
  EXPECT_EQ(records[4].datum.data(), Oriented(jpeg_, 1));
  // As it is stored it has one channel.
  const std::string& widened = records[1].datum.data();
  EXPECT_EQ(FormatOf(widened), ImageFormat::kPng);
  EXPECT_EQ(DecodeImage(widened, "widened", std::nullopt).pixels,
            DecodeImage(PngOf(gray_), "gray", true).pixels);
  // As it is stored it lies.
  const Image upright = DecodeImage(records[3].datum.data(), "upright", std::nullopt);
  EXPECT_EQ(records[3].datum.data(),
            EncodeImage(DecodeImage(turned, "turned", true), ImageFormat::kJpeg));
  EXPECT_EQ(upright.height, 8);
  EXPECT_EQ(upright.width, 6);

  records = Convert({"-encoded", "-gray"});
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[1].datum.data(), PngOf(gray_));
  EXPECT_EQ(DecodeImage(records[0].datum.data(), "gray", std::nullopt).pixels,
            DecodeImage(PngOf(color_), "gray", false).pixels);
}

TEST_F(ConvertImagesetTest, EncodesAnew) {
  std::vector<Stored> records = Convert({"-encoded", "-resize_height=4", "-resize_width=4"});
  ASSERT_EQ(records.size(), 3u);
  const auto resized = [](const std::string& file) {
    return ResizeBilinear(DecodeImage(file, "file", true), 4, 4);
  };
  EXPECT_EQ(DecodeImage(records[0].datum.data(), "png", std::nullopt).pixels,
            resized(PngOf(color_)).pixels);
  EXPECT_EQ(records[2].datum.data(), EncodeImage(resized(jpeg_), ImageFormat::kJpeg));
  records = Convert({"-encode_type=png"});
  EXPECT_TRUE(Holds(log_, "encode_type is given"));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].datum.data(), PngOf(color_));  // as it is
  EXPECT_EQ(FormatOf(records[2].datum.data()), ImageFormat::kPng);
  EXPECT_EQ(DecodeImage(records[2].datum.data(), "png", std::nullopt).pixels,
            DecodeImage(jpeg_, "jpeg", true).pixels);
  EXPECT_TRUE(records[2].datum.encoded());
  EXPECT_EQ(FormatOf(Convert({"-encoded", "-encode_type", "jpeg"})[0].datum.data()),
            ImageFormat::kJpeg);
}

TEST_F(ConvertImagesetTest, ShufflesAlwaysAlike) {
  std::string list;
  for (int i = 0; i < 40; ++i) list += "gray.png " + std::to_string(i) + "\n";
  List(list);
  const auto labels = [&](const std::string& flag) {
    std::vector<int> all;
    for (const Stored& record : Convert({flag})) all.push_back(record.datum.label());
    return all;
  };
  std::vector<int> shuffled = labels("--shuffle");
  EXPECT_TRUE(Holds(log_, "] Shuffling data"));
  EXPECT_EQ(labels("-shuffle=true"), shuffled);
  const std::vector<int> plain = labels("-noshuffle");
  EXPECT_NE(shuffled, plain);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, plain);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(plain[i], i);
}

TEST_F(ConvertImagesetTest, LeavesOutWhatItCanNotRead) {
  folder_.Put("cut.jpg", jpeg_.substr(0, jpeg_.size() / 2));
  List("color.png 3\nnone.png 1\ncut.jpg 1\ncolor.jpg 2\n");
  const std::vector<Stored> records = Convert({});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].key, "00000003_color.jpg");
  EXPECT_TRUE(Holds(log_, "list, line 2: "));
  EXPECT_TRUE(Holds(log_, "none.png"));
  EXPECT_TRUE(Holds(log_, "list, line 3: " + folder_ / "cut.jpg is not a complete JPEG file: "));
  EXPECT_TRUE(Holds(log_, "; the image is skipped"));
  EXPECT_TRUE(Holds(log_, "] Processed 2 files."));
  EXPECT_TRUE(Holds(log_.substr(log_.rfind("] ")), "] 2 of 4 images were skipped\n")) << log_;
}

TEST_F(ConvertImagesetTest, ReportsEveryThousand) {
  std::string list;
  for (int i = 0; i < 2001; ++i) list += "gray.png " + std::to_string(i) + "\n";
  List(list);
  const std::vector<Stored> records = Convert({});
  ASSERT_EQ(records.size(), 2001u);
  for (int i = 0; i < 2001; ++i) EXPECT_EQ(records[i].datum.label(), i);
  for (const char* text : {"1000", "2000", "2001"}) {
    EXPECT_TRUE(Holds(log_, std::string("] Processed ") + text + " files."));
  }
}

TEST_F(ConvertImagesetTest, Errors) {
  const std::string tool = "convert_imageset", root = folder_ / "", db = folder_ / "db";
  const auto expect_error = [&](std::vector<std::string> flags, const std::string& text) {
    flags.insert(flags.end(), {root, list_, db});
    const Outcome outcome = Run(tool, flags);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(Holds(outcome.error, tool + ": "));
    EXPECT_TRUE(Holds(outcome.error, text));
    EXPECT_FALSE(std::filesystem::exists(db));
  };
  ExpectError(tool, {root, list_}, "2 arguments are given; usage: convert_imageset");
  expect_error({"-resize_height=5"}, "must be set at the same time; they are 5 and 0");
  expect_error({"-resize_height=5", "-resize_width=-1"}, "--resize_width is '-1'");
  expect_error({"-resize_height=5.5"}, "--resize_height is '5.5'");
  expect_error({"-resize_height=100000", "-resize_width=100000"},
               "has 100000 x 100000 pixels; the limit is 268435456 pixels");
  expect_error({"-encode_type=gif"}, "--encode_type is 'gif'; it must be jpg, jpeg or png");
  expect_error({"-shufle"}, "did you mean --shuffle?");
  expect_error({"-gray=7"}, "--gray must be true or false");
  folder_.Put("small.png", PngOf(TestImage(5, 8, 3)));
  List("color.png 3\nsmall.png 1\n");
  for (const char* flag : {"-encoded", "-noencoded"}) {
    expect_error(
        {"-check_size", flag},
        "line 2: the shape of small.png is 3 5 8 (120), but that of the first image is 3 6 8 "
        "(144); --resize_height and --resize_width make them equal");
  }
  EXPECT_EQ(Convert({"-check_size", "-resize_height=4", "-resize_width=4"}).size(), 2u);
  EXPECT_EQ(Convert({}).size(), 2u);
  List("none.png 3\nalso.png 1\n");
  expect_error({}, "no image could be read; paths are appended to '" + root + "'");
  List("none.png\n");
  ExpectError(tool, {root, list_, db}, "list, line 1: 'none.png' is not a path and a label");
}

TEST_F(DataToolsTest, HelpIsNoError) {
  for (const char* tool : {"convert_mnist_data", "compute_image_mean", "convert_imageset"}) {
    const Outcome outcome = Run(tool, {"--help"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_TRUE(Holds(outcome.out, std::string("usage: ") + tool));
    EXPECT_EQ(outcome.error, "");
  }
}

}  // namespace
}  // namespace caffe
