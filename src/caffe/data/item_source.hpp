#pragma once

#include <cstdint>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/shape.hpp"

namespace caffe {

// The content of one top. Axis 0 of the shape is the items.
struct BatchArray {
  DataType type;
  Shape shape;
  std::vector<char> bytes;

  // Gives the array this shape; the content is undefined if it changes.
  void Reshape(Shape to) {
    shape = std::move(to);
    bytes.resize(ShapeCount(shape) * type.bytes());
  }
  template <class T> T* data() { return reinterpret_cast<T*>(bytes.data()); }
  template <class T> const T* data() const { return reinterpret_cast<const T*>(bytes.data()); }
};

using DataBatch = std::vector<BatchArray>;

// An item that a batch contains.
struct BatchItem {
  int64_t index;  // in the source
  // In the order in which items are read, through all epochs. Random choices for the item depend on
  // the number.
  uint64_t number;
};

// The source of a data layer: items by their index. SourceLayer (layer/source_layer.hpp) does the
// rest: it chooses the items of batches, and reads ahead in a thread. Each object is used by one
// thread at a time.
class ItemSource {
 public:
  virtual ~ItemSource() = default;
  // The numbers of items of its groups, at least one in each. Items of a group have consecutive
  // indices and stay together in a shuffled order, as rows of a file that is loaded as a whole.
  // Most sources have one group.
  virtual std::vector<int64_t> Groups() const = 0;
  // The shapes of the tops without axis 0, before the first batch, of which this is the first item.
  virtual std::vector<Shape> Shapes(int64_t index) = 0;
  // Whether other batches may have other shapes.
  virtual bool shapes_vary() const { return false; }
  // The seed of random choices in Read.
  virtual void SetSeed(uint64_t) {}
  // Reshapes the arrays, whose types are given, and writes all their elements. If it throws, later
  // calls may read other items.
  virtual void Read(const std::vector<BatchItem>& items, DataBatch* batch) = 0;
};

}  // namespace caffe
