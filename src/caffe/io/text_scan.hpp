#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caffe {

// Functions that read the structure of a prototxt without parsing it, so that they work on invalid
// text.

// Whether a character may occur in a name or number.
bool IsNameCharacter(char c);
// The end of the comment or string that begins at `at`.
size_t SkipOpaque(std::string_view text, size_t at);
// The first character after blanks, colons and comments, or 0.
char NextSign(std::string_view text, size_t at);
// The line of a position, counted from 1.
int LineAt(std::string_view text, size_t at);

// A message named layer or layers.
struct TextLayer {
  size_t begin = 0, end = 0;  // of its name and its closing brace
  int line = 0;
  int depth = 0;  // the number of messages around it
  std::string name, type;
};

// In the order of their beginnings.
std::vector<TextLayer> FindLayers(std::string_view text);

// The names of the messages around a position, the outermost first.
std::vector<std::string> MessagesAround(std::string_view text, size_t at);

}  // namespace caffe
