// A record and its transformation, or a file of means. The first byte says which.
#include <memory>

#include "caffe.pb.h"
#include "caffe/data/image.hpp"
#include "caffe/data/transformer.hpp"
#include "data/test_database.hpp"
#include "data/test_images.hpp"
#include "fuzz/support/field_words.hpp"
#include "fuzz/support/mutate_message.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

constexpr char kRecord = 'r', kMean = 'm';

TransformationParameter Parameter(int kind) {
  TransformationParameter parameter;
  if (kind > 0) parameter.set_mirror(true);
  if (kind == 1) parameter.set_crop_size(3);
  if (kind == 2) parameter.set_force_color(true);
  if (kind == 3) parameter.set_force_gray(true);
  for (int i = 0; kind == 2 && i < 3; ++i) parameter.add_mean_value(static_cast<float>(i));
  return parameter;
}

void TransformRecord(const Transformer& transformer, Datum datum) {
  try {
    transformer.Decode(&datum);
    std::vector<float> values(ShapeCount(transformer.OutputShape(datum)));
    transformer.Transform(datum, 7, values.data());
  } catch (const Error&) {
    // The next transformation may take it.
  }
}

void Take(std::string_view bytes) {
  if (bytes.empty()) return;
  if (bytes[0] == kMean) {
    TransformationParameter parameter;
    parameter.set_mean_file(WriteInput("mean.binaryproto", bytes.substr(1)));
    const Transformer transformer(parameter, false, 1);
    for (const auto& [channels, height, width] : {std::tuple(1, 2, 3), {3, 4, 4}, {3, 1, 1}}) {
      TransformRecord(transformer, TestDatum(0, channels, height, width));
    }
    return;
  }
  Datum datum;
  CAFFE_CHECK(datum.ParseFromArray(bytes.data() + 1, static_cast<int>(bytes.size()) - 1),
              "the bytes are not a record");
  for (int kind = 0; kind < 4; ++kind) {
    for (const bool training : {false, true}) {
      TransformRecord(Transformer(Parameter(kind), training, 1), datum);
    }
  }
}

std::vector<Input> Seeds() {
  Datum floats = TestDatum(0, 1, 2, 2);
  floats.clear_data();
  for (int i = 0; i < 4; ++i) floats.add_float_data(static_cast<float>(i));
  std::vector<Input> seeds{
      {"bytes", kRecord + TestDatum(0, 3, 4, 5).SerializeAsString()},
      {"floats", kRecord + floats.SerializeAsString()},
      {"png",
       kRecord +
           EncodedDatum(EncodeImage(TestImage(5, 6, 3), ImageFormat::kPng)).SerializeAsString()},
      {"jpeg",
       kRecord +
           EncodedDatum(EncodeImage(TestImage(5, 6, 1), ImageFormat::kJpeg)).SerializeAsString()}};
  BlobProto mean;
  for (int i = 0; i < 6; ++i) mean.add_data(static_cast<float>(i));
  for (const int extent : {1, 1, 2, 3}) mean.mutable_shape()->add_dim(extent);
  seeds.push_back({"mean", kMean + mean.SerializeAsString()});
  mean.clear_shape();
  mean.set_num(1);
  mean.set_channels(1);
  mean.set_height(2);
  mean.set_width(3);
  seeds.push_back({"old_mean", kMean + mean.SerializeAsString()});
  return seeds;
}

std::string Mutate(std::string_view bytes, size_t most, uint32_t seed) {
  if (bytes.empty() || most == 0) return "";
  const BlobProto mean;
  const Datum record;
  const google::protobuf::Message* message = &record;
  if (bytes[0] == kMean) message = &mean;
  const std::string changed = MutateBytes(*message, bytes.substr(1), most - 1, seed);
  return changed.empty() ? "" : bytes[0] + changed;
}

const Registration registration({.name = "datum", .run = Take, .seeds = Seeds, .mutate = Mutate});

}  // namespace
}  // namespace caffe::fuzz
