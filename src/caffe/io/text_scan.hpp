#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caffe {

// What can be said about the text of a prototxt without parsing it, so also where it does not parse.

// Letters of names and numbers.
bool IsNameCharacter(char c);
// The end of the comment or string that begins at `at`.
size_t SkipOpaque(std::string_view text, size_t at);
// The first character after blanks, colons and comments, or 0.
char NextSign(std::string_view text, size_t at);
// The line of a position, from 1 on.
int LineAt(std::string_view text, size_t at);

// A message that is called layer or layers.
struct TextLayer {
  size_t begin = 0, end = 0;  // of its name and its closing brace
  int line = 0;
  int depth = 0;  // how many messages it lies in
  std::string name, type;
};

// In the order in which they begin.
std::vector<TextLayer> FindLayers(std::string_view text);

// The names of the messages that a position lies in, the outermost first.
std::vector<std::string> MessagesAround(std::string_view text, size_t at);

}  // namespace caffe
