// Writes MNIST's files (IDX format, plain or gzipped) to a database of Datum, key %08d.
#include <cstdint>
#include <cstdio>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/data/databases.hpp"
#include "caffe/data/image.hpp"
#include "commands/data_tool.hpp"
#include "commands/idx_file.hpp"

namespace caffe {
namespace {

void Convert(const ToolCommand& command) {
  const IdxFile images = ReadIdx(command.positional[0], IdxKind::kImages);
  const IdxFile labels = ReadIdx(command.positional[1], IdxKind::kLabels);
  const int64_t count = images.shape[0], rows = images.shape[1], columns = images.shape[2];
  CAFFE_CHECK(labels.shape[0] == count, command.positional[0], " has ", count, " images, ",
              command.positional[1], " has ", labels.shape[0], " labels");
  CAFFE_CHECK(count > 0, command.positional[0], ": it has 0 images");
  CheckImageSize(command.positional[0] + ": each image", rows, columns);
  const auto database = CreateDatabase(command.flags.at("backend"), command.positional[2]);
  log::Info(Concat("A total of ", count, " items."));
  log::Info(Concat("Rows: ", rows, " Cols: ", columns));
  Datum datum;
  datum.set_channels(1);
  datum.set_height(static_cast<int>(rows));
  datum.set_width(static_cast<int>(columns));
  for (int64_t i = 0; i < count; ++i) {
    datum.set_data(images.item(i, rows * columns), rows * columns);
    datum.set_label(static_cast<uint8_t>(*labels.item(i, 1)));
    char key[24];
    std::snprintf(key, sizeof(key), "%08lld", static_cast<long long>(i));
    database->Put(key, datum);
  }
  database->Finish();
  log::Info(Concat("Processed ", count, " files."));
}

}  // namespace
}  // namespace caffe

int main(int argc, char** argv) {
  return caffe::RunTool(argc, argv,
                        {"convert_mnist_data",
                         "Writes MNIST's images and labels (IDX files, also .gz) to a database.",
                         {"image_file", "label_file", "output_db"},
                         {{"backend", "lmdb"}}},
                        caffe::Convert);
}
