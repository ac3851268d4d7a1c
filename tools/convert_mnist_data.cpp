// Writes MNIST's files (IDX format, plain or gzipped) to a database of Datum, key %08d.
#include <cstdint>
#include <cstdio>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/data/databases.hpp"
#include "caffe/data/gzip_file.hpp"
#include "commands/data_tool.hpp"

namespace caffe {
namespace {

constexpr uint32_t kImages = 0x803, kLabels = 0x801;  // bytes in 3 axes, in 1 axis

// A file of bytes in the IDX format: magic number, extents (big endian), elements.
struct Idx {
  std::vector<int64_t> shape;
  std::string bytes;
  size_t begin;  // of the elements

  const char* item(int64_t index, int64_t size) const { return &bytes[begin + index * size]; }
};

uint32_t BigEndian(const std::string& bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

Idx ReadIdx(const std::string& path, uint32_t magic) {
  const char* what = magic == kImages ? "images" : "labels";
  Idx idx{{}, ReadGzipFile(path), 0};
  const size_t axes = magic & 0xff;
  idx.begin = 4 + 4 * axes;
  CAFFE_CHECK(idx.bytes.size() >= 4, path, ": ", idx.bytes.size(),
              " bytes are too few for an IDX file");
  const uint32_t found = BigEndian(idx.bytes, 0);
  const bool swapped = found == (magic == kImages ? kLabels : kImages);
  CAFFE_CHECK(found == magic, path, ": not an IDX file of ", what, ": it begins with ", found,
              ", not with ", magic, swapped ? "; the order is images, labels, database" : "");
  CAFFE_CHECK(idx.bytes.size() >= idx.begin, path, ": its header is cut off");
  double count = 1;
  for (size_t i = 0; i < axes; ++i) {
    idx.shape.push_back(BigEndian(idx.bytes, 4 + 4 * i));
    count *= static_cast<double>(idx.shape.back());
  }
  const auto have = static_cast<double>(idx.bytes.size() - idx.begin);
  CAFFE_CHECK(have == count, path, ": its header announces ", count, " bytes of ", what,
              ", but has ", have, have < count ? "; it is cut off" : "");
  return idx;
}

void Convert(const ToolCommand& command) {
  const Idx images = ReadIdx(command.positional[0], kImages);
  const Idx labels = ReadIdx(command.positional[1], kLabels);
  const int64_t count = images.shape[0], rows = images.shape[1], columns = images.shape[2];
  CAFFE_CHECK(labels.shape[0] == count, command.positional[0], " has ", count, " images, ",
              command.positional[1], " has ", labels.shape[0], " labels");
  CAFFE_CHECK(count > 0 && rows > 0 && columns > 0, command.positional[0], ": it has ", count,
              " images of ", rows, " x ", columns);
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
