// The mean image of a database, for transform_param { mean_file }.
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/data/databases.hpp"
#include "caffe/data/transformer.hpp"
#include "caffe/io/input_files.hpp"
#include "caffe/io/proto_io.hpp"
#include "commands/data_tool.hpp"

namespace caffe {
namespace {

void ComputeMean(const ToolCommand& command) {
  const std::string& path = command.positional[0];
  if (command.positional.size() > 1)
    CheckKeepsInputs({command.positional[1]}, {path, path + "/data.mdb"});
  const auto source = OpenDatabase(command.flags.at("backend"), path);
  // With default parameters it decodes a record, checks it and converts it to float.
  const Transformer transformer(TransformationParameter(), false, 0);
  log::Info("Starting iteration");
  Shape shape;
  std::vector<double> sum;
  std::vector<float> pixels;
  Datum datum;
  int64_t count = 0;
  for (; source->Next(&datum); ++count) {
    try {
      transformer.Decode(&datum);
      const Shape found = transformer.OutputShape(datum);
      if (count == 0) {
        shape = found;
        sum.resize(ShapeCount(shape));
        pixels.resize(sum.size());
      }
      CAFFE_CHECK(found == shape, "the record's shape is ", ShapeString(found),
                  ", but the first record's is ", ShapeString(shape));
      transformer.Transform(datum, 0, pixels.data());
    } catch (const Error& error) {
      CAFFE_THROW(path, ", record ", count, " (key ", source->key(), "): ", error.what());
    }
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += pixels[i];
    if ((count + 1) % 10000 == 0) log::Info(Concat("Processed ", count + 1, " files."));
  }
  if (count % 10000 != 0) log::Info(Concat("Processed ", count, " files."));

  BlobProto mean;
  mean.set_num(1);
  mean.set_channels(static_cast<int>(shape[0]));
  mean.set_height(static_cast<int>(shape[1]));
  mean.set_width(static_cast<int>(shape[2]));
  for (double& value : sum) {
    value /= static_cast<double>(count);
    mean.add_data(static_cast<float>(value));
  }
  if (command.positional.size() > 1) {
    log::Info("Write to " + command.positional[1]);
    WriteBinaryProto(command.positional[1], mean);
  }
  const int64_t pixels_per_channel = shape[1] * shape[2];
  log::Info(Concat("Number of channels: ", shape[0]));
  for (int64_t c = 0; c < shape[0]; ++c) {
    double total = 0;
    for (int64_t i = 0; i < pixels_per_channel; ++i) total += sum[c * pixels_per_channel + i];
    log::Info(Concat("mean_value channel [", c, "]: ", total / pixels_per_channel));
  }
}

}  // namespace
}  // namespace caffe

int main(int argc, char** argv) {
  return caffe::RunTool(argc, argv,
                        {"compute_image_mean",
                         "Computes the mean image of a database and of each channel.",
                         {"input_db", "[output_file]"},
                         {{"backend", "lmdb"}}},
                        caffe::ComputeMean);
}
