#include "text_rewrite.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "text_scan.hpp"

namespace caffe {
namespace {

constexpr std::array<std::string_view, 3> kNames{"kernel_size", "stride", "pad"};

struct Block {
  bool pooling = false;
  std::array<std::vector<size_t>, 3> ends;  // the end of each occurrence of each name in the text
  std::array<bool, 3> list{};
};

}  // namespace

int LineOfNesting(std::string_view text, int limit) {
  int depth = 0, line = 1;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#' || c == '"' || c == '\'') {
      const size_t end = SkipOpaque(text, at);
      line += static_cast<int>(std::count(text.begin() + at, text.begin() + end, '\n'));
      at = end;
      continue;
    }
    if (c == '\n') ++line;
    if (c == '{' || c == '<' || c == '[') ++depth;
    if (c == '}' || c == '>' || c == ']') depth = std::max(0, depth - 1);
    if (depth > limit) return line;
    ++at;
  }
  return 0;
}

std::string RenameRepeatedPoolingFields(std::string_view text) {
  if (text.find("pooling_param") == text.npos) return std::string(text);
  std::vector<size_t> suffixes;
  std::vector<Block> blocks(1);
  std::string_view name;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#' || c == '"' || c == '\'') {
      at = SkipOpaque(text, at);
    } else if (IsNameCharacter(c)) {
      const size_t begin = at;
      while (at < text.size() && IsNameCharacter(text[at])) ++at;
      name = text.substr(begin, at - begin);
      const size_t i = static_cast<size_t>(std::ranges::find(kNames, name) - kNames.begin());
      if (blocks.back().pooling && i < kNames.size()) {
        blocks.back().ends[i].push_back(at);
        blocks.back().list[i] |= NextSign(text, at) == '[';
      }
    } else {
      ++at;
      if (c == '{' || c == '<') {
        blocks.push_back({.pooling = name == "pooling_param", .ends = {}, .list = {}});
      } else if ((c == '}' || c == '>') && blocks.size() > 1) {
        for (size_t i = 0; i < kNames.size(); ++i) {
          const auto& ends = blocks.back().ends[i];
          if (ends.size() > 1 || blocks.back().list[i]) {
            suffixes.insert(suffixes.end(), ends.begin(), ends.end());
          }
        }
        blocks.pop_back();
      }
    }
  }
  std::ranges::sort(suffixes);
  std::string rewritten;
  size_t copied = 0;
  for (const size_t end : suffixes) {
    rewritten.append(text.substr(copied, end - copied)).append("_nd");
    copied = end;
  }
  return rewritten.append(text.substr(copied));
}

}  // namespace caffe
