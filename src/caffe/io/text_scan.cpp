#include "text_scan.hpp"

#include <algorithm>
#include <cctype>
#include <functional>

namespace caffe {
namespace {

// Calls `open(name, begin)` and `close(at)` for every message, and `value(name, word)` for every name
// that is followed by a word or a string.
struct Visitor {
  std::function<void(std::string_view name, size_t begin)> open;
  std::function<void(size_t at)> close;
  std::function<void(std::string_view name, std::string_view word)> value;
};

void Scan(std::string_view text, const Visitor& visitor) {
  std::string_view name;
  size_t name_begin = 0;
  bool after_colon = false;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#') {
      at = SkipOpaque(text, at);
    } else if (c == '"' || c == '\'') {
      const size_t end = SkipOpaque(text, at);
      if (after_colon) visitor.value(name, text.substr(at + 1, std::max(end, at + 2) - at - 2));
      after_colon = false;
      at = end;
    } else if (IsNameCharacter(c)) {
      const size_t begin = at;
      while (at < text.size() && IsNameCharacter(text[at])) ++at;
      const std::string_view word = text.substr(begin, at - begin);
      if (after_colon) {
        visitor.value(name, word);
        after_colon = false;
      } else {
        name = word;
        name_begin = begin;
      }
    } else {
      if (c == ':') {
        after_colon = true;
      } else if (c == '{' || c == '<') {
        visitor.open(name, name_begin);
        after_colon = false;
      } else if (c == '}' || c == '>') {
        visitor.close(at);
        after_colon = false;
      } else if (c == '[') {
        after_colon = false;
      }
      ++at;
    }
  }
}

}  // namespace

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ||
         c == '+';
}

size_t SkipOpaque(std::string_view text, size_t at) {
  const char first = text[at++];
  if (first == '#') return std::min(text.find('\n', at), text.size());
  while (at < text.size() && text[at] != first && text[at] != '\n') {
    // A string ends with its line, even after a backslash.
    at += text[at] == '\\' && text.substr(at + 1, 1) != "\n" ? 2 : 1;
  }
  return std::min(at + 1, text.size());
}

char NextSign(std::string_view text, size_t at) {
  while (at < text.size()) {
    const char c = text[at];
    if (c == '#') {
      at = SkipOpaque(text, at);
    } else if (c == ':' || std::isspace(static_cast<unsigned char>(c))) {
      ++at;
    } else {
      return c;
    }
  }
  return 0;
}

int LineAt(std::string_view text, size_t at) {
  return 1 + static_cast<int>(std::ranges::count(text.substr(0, at), '\n'));
}

std::vector<TextLayer> FindLayers(std::string_view text) {
  std::vector<TextLayer> layers;
  std::vector<int> open;  // for each open message the index of its layer, or -1
  size_t counted = 0;
  int line = 1;
  const auto line_of = [&](size_t at) {
    line += static_cast<int>(std::ranges::count(text.substr(counted, at - counted), '\n'));
    counted = at;
    return line;
  };
  Scan(text, {.open =
                  [&](std::string_view name, size_t begin) {
                    const bool layer = name == "layer" || name == "layers";
                    if (layer) {
                      layers.push_back({begin, text.size(), line_of(begin),
                                        static_cast<int>(open.size()), "", ""});
                    }
                    open.push_back(layer ? static_cast<int>(layers.size()) - 1 : -1);
                  },
              .close =
                  [&](size_t at) {
                    if (open.empty()) return;
                    if (open.back() >= 0) layers[open.back()].end = at;
                    open.pop_back();
                  },
              .value =
                  [&](std::string_view name, std::string_view word) {
                    if (open.empty() || open.back() < 0) return;
                    TextLayer& layer = layers[open.back()];
                    if (name == "name") layer.name = word;
                    if (name == "type") layer.type = word;
                  }});
  return layers;
}

std::vector<std::string> MessagesAround(std::string_view text, size_t at) {
  std::vector<std::string> names;
  Scan(text.substr(0, at),
       {.open = [&](std::string_view name, size_t) { names.emplace_back(name); },
        .close =
            [&](size_t) {
              if (!names.empty()) names.pop_back();
            },
        .value = [](std::string_view, std::string_view) {}});
  return names;
}

}  // namespace caffe
