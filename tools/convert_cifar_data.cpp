// CIFAR-10's binary files -> two databases of Datum, cifar10_train_<backend> and
// cifar10_test_<backend>, key %05d.
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/data/databases.hpp"
#include "caffe/io/file.hpp"
#include "commands/data_tool.hpp"

namespace caffe {
namespace {

constexpr int kSize = 32, kChannels = 3, kClasses = 10;
constexpr int64_t kPixels = int64_t{kChannels} * kSize * kSize, kRecord = 1 + kPixels;

// Appends the records of a file: a byte of label, then red, green and blue, each row by row.
void Append(const std::string& path, int64_t* next, DataWriter* database) {
  const std::string bytes = ReadFile(path);
  const auto size = static_cast<int64_t>(bytes.size());
  CAFFE_CHECK(size > 0 && size % kRecord == 0, path, ": ", size, " bytes are not a multiple of ",
              "the record size of CIFAR-10, ", kRecord,
              " bytes; the binary version of the data is needed");
  Datum datum;
  datum.set_channels(kChannels);
  datum.set_height(kSize);
  datum.set_width(kSize);
  for (int64_t begin = 0; begin < size; begin += kRecord, ++*next) {
    const int label = static_cast<uint8_t>(bytes[begin]);
    CAFFE_CHECK(label < kClasses, path, ", record ", begin / kRecord, ": the label is ", label,
                "; CIFAR-10 has 0 to 9");
    datum.set_label(label);
    datum.set_data(&bytes[begin + 1], kPixels);
    char key[24];
    std::snprintf(key, sizeof(key), "%05lld", static_cast<long long>(*next));
    database->Put(key, datum);
  }
}

void Convert(const ToolCommand& command) {
  const std::filesystem::path in = command.positional[0], out = command.positional[1];
  const std::string backend = command.positional[2];
  const auto make = [&](const char* part, const std::vector<std::string>& files) {
    const std::string name = (out / Concat("cifar10_", part, "_", backend)).string();
    const auto database = CreateDatabase(backend, name);
    int64_t count = 0;
    for (const std::string& file : files) Append((in / file).string(), &count, database.get());
    database->Finish();
    log::Info(Concat("Wrote ", count, " records to ", name));
  };
  std::vector<std::string> batches;
  for (int i = 1; i <= 5; ++i) batches.push_back(Concat("data_batch_", i, ".bin"));
  make("train", batches);
  make("test", {"test_batch.bin"});
}

}  // namespace
}  // namespace caffe

int main(int argc, char** argv) {
  return caffe::RunTool(argc, argv,
                        {"convert_cifar_data",
                         "Writes CIFAR-10's binary files (data_batch_1.bin … 5, test_batch.bin) to "
                         "two databases.",
                         {"input_folder", "output_folder", "db_type"},
                         {}},
                        caffe::Convert);
}
