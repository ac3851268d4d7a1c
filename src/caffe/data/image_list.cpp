#include "caffe/data/image_list.hpp"

#include <cctype>
#include <charconv>
#include <sstream>

#include "caffe/core/error.hpp"
#include "caffe/io/file.hpp"

namespace caffe {

std::vector<ImageEntry> ReadImageList(const std::string& path) {
  std::vector<ImageEntry> entries;
  std::istringstream list(ReadFile(path));
  std::string line;
  for (int64_t number = 1; std::getline(list, line); ++number) {
    // Editors on Windows mark UTF-8.
    if (number == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (line.empty()) continue;
    const size_t blank = line.find_last_of(" \t");
    CAFFE_CHECK(blank != std::string::npos, path, ", line ", number, ": '", line,
                "' is not a path and a label");
    int label = 0;
    const char* begin = line.data() + blank + 1;
    const char* end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(begin, end, label);
    CAFFE_CHECK(error == std::errc() && stop == end, path, ", line ", number, ": the label '",
                std::string(begin, end), "' is not an integer");
    entries.push_back({line.substr(0, blank), label, number});
  }
  CAFFE_CHECK(!entries.empty(), path, ": the list has no images");
  return entries;
}

}  // namespace caffe
