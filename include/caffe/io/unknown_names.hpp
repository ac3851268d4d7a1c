#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace caffe {

// An unknown field or value of a layer that has include or exclude rules, which may leave the layer
// out. It is an error if the layer stays.
struct OptionalName {
  int layer = 0;  // its index in the net
  int line = 0;
  std::string what, description;  // see UnknownNames::Add
  std::string layer_field;        // the name if it is a field of the layer itself
};

// Collects the unknown names of a file or a message for one error.
class UnknownNames {
 public:
  // `what` describes the unknown name; `description` is that of foreign_names.hpp and may be empty;
  // equal ones are printed once. `line` is 0 if it is unknown.
  void Add(int line, const std::string& what, const std::string& description);
  // Names that are counted and not described.
  void AddMore(size_t count);
  bool empty() const { return size() == 0; }
  size_t size() const { return items_.size() + more_; }
  // A single item on one line; several items on one line each, in the order of their lines and up
  // to 100, followed by their descriptions.
  std::string ToString() const;

 private:
  struct Item {
    int line;
    std::string what, description;
  };
  std::vector<Item> items_;
  size_t more_ = 0;
};

// The text, cut after 1000 bytes: an error about a file is not as long as the file.
std::string Shortened(const std::string& text);

// "layer conv1 (Convolution)", with name and type as far as they are known.
std::string LayerLabel(const std::string& name, const std::string& type);
// "net lenet", or "the net" if it has no name.
std::string NetLabel(const std::string& name);

}  // namespace caffe
