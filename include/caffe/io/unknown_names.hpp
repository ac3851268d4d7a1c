#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace caffe {

// Collects the unknown names of a file or a message for one error.
class UnknownNames {
 public:
  // `what` describes the unknown name; `description` is that of foreign_names.hpp and may be empty;
  // equal ones are printed once. `line` is 0 if it is unknown.
  void Add(int line, const std::string& what, const std::string& description);
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  // A single item on one line; several items on one line each, in the order of their lines,
  // followed by their descriptions.
  std::string ToString() const;

 private:
  struct Item {
    int line;
    std::string what, description;
  };
  std::vector<Item> items_;
};

// "layer conv1 (Convolution)", with name and type as far as they are known.
std::string LayerLabel(const std::string& name, const std::string& type);

}  // namespace caffe
