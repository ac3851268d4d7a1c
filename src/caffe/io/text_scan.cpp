#include "text_scan.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <utility>

namespace caffe {
namespace {

// Calls `open(name, begin)` and `close(at)` for every message, and `value(name, word)` for every
// name that is followed by a word or a string.
struct Visitor {
  std::function<void(std::string_view name, size_t begin)> open;
  std::function<void(size_t at)> close;
  std::function<void(std::string_view name, std::string_view word)> value;
};

void Scan(std::string_view text, const Visitor& visitor) {
  struct Name {
    std::string_view word;
    size_t begin = 0;
  };
  Name name;
  std::vector<Name> lists;  // the names of the open lists: field: [{ … }, { … }]
  bool after_colon = false;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#') {
      at = SkipOpaque(text, at);
    } else if (c == '"' || c == '\'') {
      const size_t end = SkipOpaque(text, at);
      if (after_colon) {
        visitor.value(name.word, text.substr(at + 1, std::max(end, at + 2) - at - 2));
      }
      after_colon = false;
      at = end;
    } else if (IsNameCharacter(c)) {
      const size_t begin = at;
      while (at < text.size() && IsNameCharacter(text[at])) ++at;
      const std::string_view word = text.substr(begin, at - begin);
      if (after_colon) {
        visitor.value(name.word, word);
        after_colon = false;
      } else {
        name = {word, begin};
      }
    } else {
      if (c == ':') {
        after_colon = true;
      } else if (c == '{' || c == '<') {
        visitor.open(name.word, name.begin);
        // A name is for one message: `layer { {` opens one layer.
        name = {{}, at + 1};
        after_colon = false;
      } else if (c == '}' || c == '>') {
        visitor.close(at);
        name = lists.empty() ? Name{{}, at + 1} : Name{lists.back().word, at + 1};
        after_colon = false;
      } else if (c == '[') {
        lists.push_back(name);
        after_colon = false;
      } else if (c == ']') {
        if (!lists.empty()) lists.pop_back();
        name = {{}, at + 1};
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
  struct Message {
    bool of_v1 = false;  // named layers
    int layer = -1;      // its index, if it is a layer
    int around = -1;     // the index of the innermost layer with it inside, or its own
  };
  std::vector<TextLayer> layers;
  std::vector<Message> open;
  size_t counted = 0;
  int line = 1;
  const auto line_of = [&](size_t at) {
    line += static_cast<int>(std::ranges::count(text.substr(counted, at - counted), '\n'));
    counted = at;
    return line;
  };
  Scan(text, {.open =
                  [&](std::string_view name, size_t begin) {
                    Message message{.of_v1 = name == "layers"};
                    const Message* outer = open.empty() ? nullptr : &open.back();
                    if (outer) message.around = outer->around;
                    if (name == "layer" || name == "layers") {
                      TextLayer layer;
                      layer.begin = begin;
                      layer.end = text.size();
                      layer.line = line_of(begin);
                      layer.depth = static_cast<int>(open.size());
                      layer.outer = message.around;
                      layer.old = message.of_v1 || (outer && outer->of_v1);
                      message.layer = message.around = static_cast<int>(layers.size());
                      layers.push_back(std::move(layer));
                    }
                    open.push_back(message);
                  },
              .close =
                  [&](size_t at) {
                    if (open.empty()) return;
                    if (open.back().layer >= 0) layers[open.back().layer].end = at;
                    open.pop_back();
                  },
              .value =
                  [&](std::string_view name, std::string_view word) {
                    if (open.empty() || open.back().layer < 0) return;
                    TextLayer& layer = layers[open.back().layer];
                    if (name == "name") layer.name = word;
                    if (name == "type") layer.type = word;
                  }});
  return layers;
}

const TextLayer* LayerAround(const std::vector<TextLayer>& layers, size_t at) {
  const auto after = std::ranges::upper_bound(layers, at, {}, &TextLayer::begin);
  int index = static_cast<int>(after - layers.begin()) - 1;
  while (index >= 0 && at >= layers[index].end) index = layers[index].outer;
  return index < 0 ? nullptr : &layers[index];
}

size_t FindLastWord(std::string_view text, std::string_view word, size_t last) {
  size_t found = text.npos;
  for (size_t at = 0; at < text.size() && at <= last;) {
    const char c = text[at];
    if (c == '#' || c == '"' || c == '\'') {
      at = SkipOpaque(text, at);
    } else if (IsNameCharacter(c)) {
      const size_t begin = at;
      while (at < text.size() && IsNameCharacter(text[at])) ++at;
      if (text.substr(begin, at - begin) == word) found = begin;
    } else {
      ++at;
    }
  }
  return found;
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
