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
  int depth = 0;     // the number of messages around it
  int outer = -1;    // the index of the innermost layer around it, or -1
  bool old = false;  // of the format V1 or V0: it or the message around it is named layers
  std::string name, type;
};

// In the order of their beginnings.
std::vector<TextLayer> FindLayers(std::string_view text);
// The innermost layer around a position; null if there is none.
const TextLayer* LayerAround(const std::vector<TextLayer>& layers, size_t at);

// Where this whole word begins the last time, at `last` or before, outside of comments and strings;
// npos if nowhere.
size_t FindLastWord(std::string_view text, std::string_view word, size_t last);

// The names of the messages around a position, the outermost first.
std::vector<std::string> MessagesAround(std::string_view text, size_t at);

}  // namespace caffe
