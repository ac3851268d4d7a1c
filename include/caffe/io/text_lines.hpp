#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caffe {

// A text without the mark of UTF-8 (EF BB BF) that editors on Windows put at its beginning.
std::string_view WithoutMark(std::string_view text);

struct TextLine {
  std::string text;
  int64_t number = 0;  // from 1
};

// The lines of a file that lists something, without blanks and carriage returns at their ends, and
// without empty lines. The mark of UTF-8 is left out, and the last line may lack its end. Throws,
// with file and line, for zero bytes and for lines that are too long to be one: the file is not a
// list.
std::vector<TextLine> ReadTextLines(const std::string& path);

}  // namespace caffe
