#include "caffe/io/text_lines.hpp"

#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/io/file.hpp"

namespace caffe {
namespace {

std::vector<TextLine> LinesOf(std::string_view text, const std::string& path) {
  constexpr size_t kLongest = 1 << 16;
  constexpr std::string_view kBlanks = " \t\r\v\f";
  std::vector<TextLine> lines;
  text = WithoutMark(text);
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    CAFFE_CHECK(line.find('\0') == std::string_view::npos, path, ", line ", number,
                ": it has a zero byte; the list must be text in UTF-8");
    line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
    CAFFE_CHECK(line.size() <= kLongest, path, ", line ", number, ": it has ", line.size(),
                " bytes, but a line of a list has at most ", kLongest);
    if (!line.empty()) lines.push_back({std::string(line), number});
  }
  return lines;
}

}  // namespace

std::string_view WithoutMark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::vector<TextLine> ReadTextLines(const std::string& path) {
  return NamingMemory(path, [&] { return LinesOf(ReadFile(path), path); });
}

}  // namespace caffe
