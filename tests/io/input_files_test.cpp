// Results that would replace an input.
#include "caffe/io/input_files.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/file.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

std::string Fault(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
  try {
    CheckKeepsInputs(outputs, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(InputFilesTest, AFileIsFoundUnderEachOfItsNames) {
  const TemporaryFolder folder;
  const std::string input = folder.Put("net.caffemodel", "weights");
  std::filesystem::create_symlink(input, folder / "link.caffemodel");
  std::filesystem::create_directory_symlink(folder / "", folder / "again");
  const std::string names[] = {
      input, folder / "./net.caffemodel", folder / "link.caffemodel",
      folder / "again/net.caffemodel",
      std::filesystem::relative(input, std::filesystem::current_path()).string()};
  for (const std::string& output : names) {
    for (const std::string& name : names) {
      EXPECT_EQ("the result " + output + " would replace the input " + name +
                    "; give the results another name",
                Fault({folder / "other", output}, {"absent", name}));
    }
  }
  EXPECT_EQ("", Fault({folder / "new.caffemodel", folder / "", "/dev/null"},
                      {input, folder / "", "/dev/null", ""}));
}

TEST(InputFilesTest, ResultsAreCheckedBeforeTheyAreWritten) {
  const TemporaryFolder folder;
  const std::string input = folder.Put("net.json", "list");
  EXPECT_THROW(CheckResults(folder / "net", {".html", ".json"}, {input}), Error);
  EXPECT_THROW(CheckResults(folder / "absent/net", {".html", ".json"}, {input}), Error);
  CheckResults(folder / "net", {".html", ".json"}, {});
  EXPECT_EQ("list", ReadFile(input));
  EXPECT_FALSE(std::filesystem::exists(folder / "net.html"));
}

TEST(InputFilesTest, LayersNameTheFilesThatTheyRead) {
  const TemporaryFolder folder;
  const std::string list = folder.Put("list.txt", "a.h5\n b.h5 \r\n");
  NetParameter net;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layer { name: 'd' type: 'Data' data_param { source: 'db' }"
      "        transform_param { mean_file: 'mean' } }"
      "layer { name: 'h' type: 'HDF5Data' hdf5_data_param { source: '" +
          list +
          "' } }"
          "layer { name: 'i' type: 'InfogainLoss' infogain_loss_param { source: 'matrix' }"
          "        blobs { data: 1 } }",
      &net));
  EXPECT_EQ((std::vector<std::string>{"mean", "db", list, "a.h5", " b.h5", "matrix"}),
            InputFiles(net));
}

}  // namespace
}  // namespace caffe
