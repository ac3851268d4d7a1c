#include "caffe/data/image_list.hpp"

#include <charconv>

#include "caffe/core/error.hpp"
#include "caffe/io/text_lines.hpp"

namespace caffe {

std::vector<ImageEntry> ReadImageList(const std::string& path) {
  std::vector<ImageEntry> entries;
  for (const auto& [line, number] : ReadTextLines(path)) {
    const size_t blank = line.find_last_of(" \t");
    CAFFE_CHECK(blank != std::string::npos, path, ", line ", number, ": '", line,
                "' is not a path and a label");
    int label = 0;
    const char* begin = line.data() + blank + 1;
    const char* end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(begin, end, label);
    CAFFE_CHECK(error == std::errc() && stop == end, path, ", line ", number, ": the label '",
                std::string(begin, end), "' is not an integer",
                error == std::errc::result_out_of_range ? " of 32 bits" : "");
    entries.push_back({line.substr(0, blank), label, number});
  }
  CAFFE_CHECK(!entries.empty(), path, ": the list has no images");
  return entries;
}

}  // namespace caffe
