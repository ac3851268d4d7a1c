#include "caffe/device/source_excerpt.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <sstream>

namespace caffe {
namespace {

constexpr int kLinesAround = 4;

struct Line {
  std::string text;
  std::string file;  // the file of the #line directive; empty before the first one
  int number = 0;    // the line number by the #line directive
  bool directive = false;
};

std::vector<Line> Split(const std::string& source) {
  static const std::regex directive(R"(^\s*#\s*(?:line\s+)?(\d+)\s+"([^"]*)\")");
  std::vector<Line> lines;
  std::istringstream in(source);
  std::string text, file;
  int number = 1;
  while (std::getline(in, text)) {
    std::smatch match;
    if (text.find('#') != std::string::npos && std::regex_search(text, match, directive)) {
      lines.push_back({text, file, number, true});
      number = std::atoi(match[1].str().c_str());
      file = match[2];
    } else {
      lines.push_back({text, file, number++, false});
    }
  }
  return lines;
}

bool HoldsWord(const std::string& text, const std::string& word) {
  const auto in_word = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if (!(at > 0 && in_word(at - 1)) && !in_word(at + word.size())) return true;
  }
  return false;
}

}  // namespace

std::optional<SourcePlace> FirstErrorPlace(const std::string& log) {
  static const std::regex colons(R"(([^\s:][^\s:]*):(\d+):(?:\d+:)?)");
  static const std::regex parentheses(R"(([^\s(:][^\s(]*)\((\d+)\)\s*:)");
  std::istringstream in(log);
  std::string line;
  while (std::getline(in, line)) {
    if (line.find("error") == std::string::npos) continue;
    std::smatch match;
    if (std::regex_search(line, match, colons) || std::regex_search(line, match, parentheses)) {
      return SourcePlace{match[1], std::atoi(match[2].str().c_str())};
    }
  }
  return std::nullopt;
}

SourceExcerpt ExcerptAround(const std::string& source, const SourcePlace& place,
                            const std::vector<std::string>& kernel_names) {
  const std::vector<Line> lines = Split(source);
  const bool named = std::any_of(lines.begin(), lines.end(),
                                 [&](const Line& line) { return line.file == place.file; });
  auto found = lines.end();
  if (named) {
    found = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return !line.directive && line.file == place.file && line.number == place.line;
    });
  } else if (place.line >= 1 && place.line <= static_cast<int>(lines.size())) {
    found = lines.begin() + place.line - 1;
  }
  SourceExcerpt excerpt;
  if (found == lines.end()) return excerpt;
  excerpt.place = {found->file.empty() ? place.file : found->file, found->number};

  const int at = static_cast<int>(found - lines.begin());
  const int first = std::max(0, at - kLinesAround);
  const int last = std::min(static_cast<int>(lines.size()) - 1, at + kLinesAround);
  for (int i = first; i <= last; ++i) {
    const Line& line = lines[i];
    if (line.directive || line.file != found->file) continue;
    char number[24];
    std::snprintf(number, sizeof number, "%c %5d | ", i == at ? '>' : ' ', line.number);
    excerpt.lines += number + line.text + "\n";
  }

  // Searches upwards for the nearest head. A closing brace at the margin ends the scope above it.
  for (int i = at; i >= 0 && lines[i].file == found->file; --i) {
    if (i < at && !lines[i].text.empty() && lines[i].text[0] == '}') break;
    const bool head = lines[i].text.find("KERNEL") != std::string::npos ||
                      lines[i].text.find("__kernel") != std::string::npos ||
                      lines[i].text.find("__global__") != std::string::npos;
    if (!head) continue;
    for (const std::string& name : kernel_names) {
      if (HoldsWord(lines[i].text, name)) excerpt.kernel = name;
    }
    break;
  }
  return excerpt;
}

}  // namespace caffe
