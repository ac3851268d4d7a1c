#include "caffe/data/transformer.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "caffe/io/proto_io.hpp"
#include "data/test_database.hpp"
#include "data/test_images.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Floats = std::vector<float>;

TransformationParameter Parameter(const std::string& text) {
  TransformationParameter parameter;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &parameter)) << text;
  return parameter;
}

// Bytes 0, 1, 2, … in C order.
Datum Counting(int channels, int height, int width) {
  return TestDatum(0, channels, height, width);
}

Floats Transformed(const Transformer& transformer, const Datum& datum, uint64_t record = 0) {
  Floats out(ShapeCount(transformer.OutputShape(datum)));
  transformer.Transform(datum, record, out.data());
  return out;
}
Floats Transformed(const std::string& parameter, const Datum& datum, bool training = false) {
  return Transformed(Transformer(Parameter(parameter), training, 1), datum);
}

// The bytes of a counting datum 3 wide, which the flip of each row leaves.
const Floats kPlain{0, 1, 2, 3, 4, 5}, kMirrored{2, 1, 0, 5, 4, 3};

TEST(TransformerTest, PlainBytesAndFloats) {
  EXPECT_EQ(Transformed("", Counting(1, 2, 3)), kPlain);
  EXPECT_EQ(Transformed("", TestDatum(36, 1, 1, 4)), Floats({252, 253, 254, 255}));  // not signed
  Datum floats = Counting(1, 1, 2);
  floats.clear_data();
  floats.add_float_data(-0.5f);
  floats.add_float_data(300.25f);
  EXPECT_EQ(Transformed("scale: 2", floats), Floats({-1, 600.5f}));
}

TEST(TransformerTest, MeanValueIsTakenOffBeforeScaling) {
  EXPECT_EQ(Transformed("mean_value: 1 scale: 0.5", Counting(2, 1, 2)),
            Floats({-0.5f, 0, 0.5f, 1}));
  EXPECT_EQ(Transformed("mean_value: 1 mean_value: 3", Counting(2, 1, 2)), Floats({-1, 0, -1, 0}));
}

TEST(TransformerTest, CropFromTheCentreRoundsDown) {
  const Transformer transformer(Parameter("crop_size: 2"), false, 1);
  EXPECT_EQ(transformer.OutputShape(Counting(2, 5, 4)), Shape({2, 2, 2}));
  // Rows 1 and 2 of 5, columns 1 and 2 of 4.
  EXPECT_EQ(Transformed(transformer, Counting(2, 5, 4)), Floats({5, 6, 9, 10, 25, 26, 29, 30}));
}

TEST(TransformerTest, CropsNeedNotBeSquare) {
  const Transformer transformer(Parameter("crop_h: 1 crop_w: 3"), false, 1);
  EXPECT_EQ(transformer.OutputShape(Counting(1, 5, 5)), Shape({1, 1, 3}));
  EXPECT_EQ(Transformed(transformer, Counting(1, 5, 5)), Floats({11, 12, 13}));
  const Transformer random(Parameter("crop_h: 2 crop_w: 4"), true, 7);
  std::map<float, int> corners;
  for (uint64_t record = 0; record < 2000; ++record) {
    const Floats out = Transformed(random, Counting(1, 3, 4), record);
    EXPECT_EQ(out[7], out[0] + 7);
    ++corners[out[0]];
  }
  ASSERT_EQ(corners.size(), 2u);  // rows 0 and 1
  for (const auto& [corner, count] : corners) EXPECT_NEAR(count, 1000, 150) << corner;
}

TEST(TransformerTest, RandomCropReachesEveryPlaceEquallyOften) {
  const Transformer transformer(Parameter("crop_size: 2"), true, 7);
  std::map<float, int> corners;  // the first pixel says where the crop was
  for (uint64_t record = 0; record < 6000; ++record) {
    const Floats out = Transformed(transformer, Counting(1, 3, 4), record);
    EXPECT_EQ(out, Floats({out[0], out[0] + 1, out[0] + 4, out[0] + 5}));
    ++corners[out[0]];
  }
  ASSERT_EQ(corners.size(), 6u);  // 2 x 3 offsets
  for (const auto& [corner, count] : corners) EXPECT_NEAR(count, 1000, 150) << corner;
}

TEST(TransformerTest, MirrorIsRandomInTestingToo) {
  for (bool training : {false, true}) {
    const Transformer transformer(Parameter("mirror: true"), training, 3);
    int mirrored = 0;
    for (uint64_t record = 0; record < 1000; ++record) {
      const Floats out = Transformed(transformer, Counting(1, 2, 3), record);
      EXPECT_TRUE(out == kPlain || out == kMirrored);
      mirrored += out == kMirrored;
    }
    EXPECT_NEAR(mirrored, 500, 75);
  }
}

TEST(TransformerTest, RandomChoicesDependOnSeedAndRecordOnly) {
  const auto choices = [](uint64_t seed, bool backwards) {
    const Transformer transformer(Parameter("mirror: true crop_size: 3"), true, seed);
    std::vector<Floats> all(64);
    for (int i = 0; i < 64; ++i) {
      const int record = backwards ? 63 - i : i;
      all[record] = Transformed(transformer, Counting(1, 6, 6), record);
    }
    return all;
  };
  EXPECT_EQ(choices(1, false), choices(1, true));
  EXPECT_NE(choices(1, false), choices(2, false));
}

TEST(TransformerTest, MeanImageMovesWithCropAndMirror) {
  const TemporaryFolder folder;
  BlobProto mean;
  mean.set_num(1);
  mean.set_channels(1);
  mean.set_height(4);
  mean.set_width(4);
  for (int i = 0; i < 16; ++i) mean.add_data(static_cast<float>(i));
  WriteBinaryProto(folder / "mean", mean);
  const std::string file = "mean_file: '" + folder / "mean" + "'";
  // The mean equals the image, so every crop becomes 0.
  const Transformer transformer(Parameter(file + " crop_size: 3 mirror: true"), true, 5);
  for (uint64_t record = 0; record < 50; ++record) {
    EXPECT_EQ(Transformed(transformer, Counting(1, 4, 4), record), Floats(9, 0));
  }
  const Datum ones = TestDatum(0, 1, 4, 4);
  Datum shifted = ones;
  std::string bytes = ones.data();
  for (char& byte : bytes) byte = static_cast<char>(byte + 4);
  shifted.set_data(bytes);
  EXPECT_EQ(Transformed(file + " scale: 0.25", shifted), Floats(16, 1));
  EXPECT_TRUE(Holds(ErrorOf([&] { Transformed(file, Counting(1, 4, 5)); }),
                    "1 4 5 (20), but the mean file's is 1 4 4 (16)"));
}

TEST(TransformerTest, MeanFileErrors) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& name) {
    return ErrorOf([&] { Transformed("mean_file: '" + folder / name + "'", Counting(1, 1, 2)); });
  };
  EXPECT_TRUE(Holds(error("missing"), "missing"));
  BlobProto mean;
  mean.mutable_shape()->add_dim(1);
  mean.mutable_shape()->add_dim(2);
  WriteBinaryProto(folder / "flat", mean);
  EXPECT_TRUE(Holds(error("flat"), "not the shape of one image"));
  mean.mutable_shape()->add_dim(3);
  mean.add_data(1);
  WriteBinaryProto(folder / "short", mean);
  EXPECT_TRUE(Holds(error("short"), "1 values for shape 1 2 3"));
}

TEST(TransformerTest, MeanFilesOfImpossibleShapesAreNamed) {
  const TemporaryFolder folder;
  const auto error = [&](const std::vector<int64_t>& shape) {
    BlobProto mean;
    for (const int64_t extent : shape) mean.mutable_shape()->add_dim(extent);
    mean.add_data(1);
    WriteBinaryProto(folder / "mean", mean);
    return ErrorOf([&] { Transformed("mean_file: '" + folder / "mean" + "'", Counting(1, 1, 1)); });
  };
  const std::string name = "mean file " + folder / "mean" + ": ";
  EXPECT_EQ(error({1, 1, 1}), "");
  EXPECT_TRUE(Holds(error({1, -1, -1}), name + "extent -1 of axis 1 is negative"));
  EXPECT_TRUE(Holds(error({1, int64_t{1} << 40, int64_t{1} << 40}), name + "a blob of shape"));
  EXPECT_TRUE(Holds(error({0, 1, 1}), name + "1 values for shape 0 1 1"));
  EXPECT_TRUE(Holds(error({}), name + "shape 0 0 0 0 (0) is not the shape of one image"));
  BlobProto old;
  old.set_channels(-3);
  old.set_num(1);
  WriteBinaryProto(folder / "old", old);
  EXPECT_TRUE(
      Holds(ErrorOf([&] { Transformed("mean_file: '" + folder / "old" + "'", Counting(1, 1, 1)); }),
            "old: extent -3 of axis 1 is negative"));
}

// An image as a record of pixels.
Datum PixelsOf(const Image& image) {
  Datum datum;
  SetPixels(image, &datum);
  return datum;
}

Datum Decoded(const std::string& parameter, Datum datum) {
  Transformer(Parameter(parameter), false, 1).Decode(&datum);
  return datum;
}

TEST(TransformerTest, EncodedRecordsAreTransformedAsTheirPixelsAre) {
  const Transformer transformer(
      Parameter("crop_size: 5 mirror: true scale: 0.5 mean_value: 100 force_color: true"), true, 3);
  const Image image = TestImage(8, 9, 3);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg}) {
    const std::string file = EncodeImage(image, format);
    const Datum pixels =
        PixelsOf(format == ImageFormat::kPng ? image : DecodeImage(file, "a.jpg", true));
    Datum decoded = EncodedDatum(file, 7);
    transformer.Decode(&decoded);
    EXPECT_EQ(decoded.label(), 7);
    EXPECT_FALSE(decoded.encoded());
    for (uint64_t record = 0; record < 50; ++record) {
      EXPECT_EQ(Transformed(transformer, decoded, record),
                Transformed(transformer, pixels, record));
    }
  }
}

TEST(TransformerTest, ChannelsOfEncodedRecords) {
  const Image color = TestImage(4, 6, 3), gray = TestImage(5, 3, 1);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg}) {
    const std::string color_file = EncodeImage(color, format),
                      gray_file = EncodeImage(gray, format);
    const struct {
      const char* parameter;
      std::string file;
      int channels;
    } cases[] = {{"", color_file, 3},
                 {"", gray_file, 1},
                 {"force_color: true", color_file, 3},
                 {"force_color: true", gray_file, 3},
                 {"force_gray: true", color_file, 1},
                 {"force_gray: true", gray_file, 1}};
    for (const auto& c : cases) {
      const Datum decoded = Decoded(c.parameter, EncodedDatum(c.file));
      EXPECT_EQ(decoded.channels(), c.channels) << c.parameter;
      const Datum expected = PixelsOf(DecodeImage(c.file, "image", c.channels == 3));
      EXPECT_EQ(decoded.data(), expected.data()) << c.parameter;
    }
  }
  EXPECT_EQ(Decoded("", EncodedDatum(PngOf(color))).data(), PixelsOf(color).data());
}

TEST(TransformerTest, RecordsOfPixelsNeedNoDecoding) {
  const Datum datum = TestDatum(3, 2, 3, 4);
  EXPECT_EQ(Decoded("", datum).SerializeAsString(), datum.SerializeAsString());
  testing::internal::CaptureStderr();
  EXPECT_EQ(Decoded("force_gray: true", datum).SerializeAsString(), datum.SerializeAsString());
  EXPECT_TRUE(Holds(testing::internal::GetCapturedStderr(), "only matter for encoded images"));
}

TEST(TransformerTest, DamagedEncodedRecords) {
  const auto error = [](const std::string& bytes) {
    return ErrorOf([&] { Decoded("", EncodedDatum(bytes)); });
  };
  const std::string cure = "; convert the images again, or without -encoded";
  EXPECT_EQ(error(""), "the encoded image is empty" + cure);
  EXPECT_EQ(error("GIF89a"),
            "the encoded image is neither a JPEG nor a PNG file, but a GIF file" + cure);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg}) {
    const std::string file = EncodeImage(TestImage(20, 20, 3), format);
    const std::string cut = error(file.substr(0, file.size() / 2));
    EXPECT_TRUE(Holds(cut, "the encoded image is not a complete "));
    EXPECT_TRUE(Holds(cut, cure));
  }
}

TEST(TransformerTest, ParametersThatContradict) {
  const auto error = [](const std::string& parameter) {
    return ErrorOf([&] { Transformed(parameter, Counting(2, 3, 4)); });
  };
  EXPECT_TRUE(Holds(error("mean_file: 'x' mean_value: 1"), "not both"));
  EXPECT_TRUE(Holds(error("force_color: true force_gray: true"), "not both"));
  EXPECT_TRUE(Holds(error("crop_size: 4"), "crop_size 4 is larger than the image of 3 x 4"));
  EXPECT_TRUE(
      Holds(error("mean_value: 1 mean_value: 2 mean_value: 3"), "3 mean_value for 2 channels"));
  EXPECT_TRUE(Holds(error("crop_size: 2 crop_h: 2 crop_w: 2"),
                    "give either crop_size, or crop_h and crop_w"));
  EXPECT_TRUE(Holds(error("crop_h: 2"), "give crop_h and crop_w together"));
  EXPECT_TRUE(Holds(error("crop_h: 1 crop_w: 5"),
                    "crop_h 1 and crop_w 5 are larger than the image of 3 x 4"));
  for (const char* field :
       {"resize_param", "noise_param", "distort_param", "expand_param", "emit_constraint"}) {
    EXPECT_TRUE(Holds(error(Concat(field, " { }")),
                      Concat(field, " is not supported; resize and distort the images before")));
  }
  EXPECT_EQ(error("force_gray: true"), "");
}

TEST(TransformerTest, RecordsThatAreNoPixels) {
  const auto error = [](const Datum& datum) { return ErrorOf([&] { Transformed("", datum); }); };
  EXPECT_TRUE(Holds(error(EncodedDatum(PngOf(TestImage(1, 1, 1)))), "was not decoded"));
  Datum few = Counting(1, 2, 2);
  few.set_width(3);
  EXPECT_TRUE(Holds(error(few), "4 bytes for channels, height, width 1, 2, 3"));
  Datum none = Counting(1, 1, 1);
  none.clear_data();
  EXPECT_TRUE(Holds(error(none), "0 floats"));
  EXPECT_TRUE(Holds(error(Datum()), "0, 0, 0"));
  for (const int extent : {-1, INT32_MIN}) {
    Datum negative = Counting(1, 2, 2);
    negative.set_height(extent);
    negative.set_width(extent);
    EXPECT_TRUE(Holds(error(negative), "channels, height, width 1, " + std::to_string(extent)));
  }
  Datum huge = Counting(1, 2, 2);
  huge.set_channels(INT32_MAX);
  huge.set_height(INT32_MAX);
  huge.set_width(INT32_MAX);
  EXPECT_TRUE(Holds(error(huge), "has too many elements"));
  huge.set_width(1);
  huge.set_channels(4);
  EXPECT_TRUE(Holds(error(huge), "4 bytes for channels, height, width 4, 2147483647, 1"));
}

}  // namespace
}  // namespace caffe
