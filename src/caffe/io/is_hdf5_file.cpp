#include <filesystem>
#include <fstream>

#include "caffe/io/hdf5_file.hpp"

namespace caffe {

bool IsHdf5File(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  char start[8] = {};
  file.read(start, sizeof(start));
  return file && std::string_view(start, sizeof(start)) == "\x89HDF\r\n\x1a\n";
}

}  // namespace caffe
