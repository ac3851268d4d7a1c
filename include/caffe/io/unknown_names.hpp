#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace caffe {

// One error for all that a file or a message has and this library does not know.
class UnknownNames {
 public:
  // `what` says what is unknown; `description` is that of foreign_names.hpp and may be empty; equal
  // ones are printed once. `line` is 0 where there is none.
  void Add(int line, const std::string& what, const std::string& description);
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  // A single item on one line; several under each other, in the order of their lines, and behind them
  // what they are.
  std::string ToString() const;

 private:
  struct Item {
    int line;
    std::string what, description;
  };
  std::vector<Item> items_;
};

// "layer conv1 (Convolution)", as far as name and type are given.
std::string LayerLabel(const std::string& name, const std::string& type);

}  // namespace caffe
