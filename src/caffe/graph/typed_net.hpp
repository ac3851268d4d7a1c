#pragma once

#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"

namespace caffe {

// A layer between the passes. The passes rename blobs in the user's message, but they read and
// write types only in this struct, so that a type may be one that the user added.
struct TypedLayer {
  LayerParameter layer;
  TypeTriple types;
  // The type of each top: types.out except for tops of a fixed type, such as labels.
  std::vector<DataType> tops;
  // The layer reads bottoms of which ReadsAsItIs is true without casts
  // (LayerTraits::reads_any_float).
  bool reads_any_float = false;
  // The layer multiplies codes, whose range is that of its bottom in each forward: types.in and
  // types.out are float.
  bool dynamic = false;
  // A pass added the layer; it is not the user's.
  bool added = false;
};

struct TypedNet {
  std::vector<TypedLayer> layers;
  // The data that backward passes read are kept: in phase TRAIN and with force_backward.
  bool keeps_gradients = false;
  // The casts that MoveCasts and InsertCasts saved.
  int casts_moved = 0, casts_omitted = 0;

  // The messages, each with the layer's types. For the log.
  std::string ToString() const;
};

// A float kind whose elements are numbers of C++ and NumPy.
bool ReadsAsItIs(DataType type);
// The user set types of this layer.
bool HasOwnTypes(const LayerParameter& layer);
// Without types of its own the layer takes that of its bottom.
bool FollowsBottom(const LayerParameter& layer);

// Whether top `index` of a layer is its bottom `index`.
bool IsInPlace(const LayerParameter& layer, int index);

}  // namespace caffe
