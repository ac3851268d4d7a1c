#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/data_type.hpp"

namespace caffe {

class LayerParameter;

// The data that a layer's Backward reads, by the indices of bottoms and tops; kAll stands for every
// one. Diffs and parameters do not count.
struct BackwardReads {
  static constexpr int kAll = -1;
  std::vector<int> bottoms, tops;
  // A layer that works in place reads a private copy of bottom 0 (InputCopy) instead of the blob.
  bool copies_in_place = false;
  // Of that data it reads only which elements are positive.
  bool only_signs = false;

  bool Bottom(int index) const { return Holds(bottoms, index); }
  bool Top(int index) const { return Holds(tops, index); }

 private:
  static bool Holds(const std::vector<int>& list, int index) {
    for (int entry : list) {
      if (entry == kAll || entry == index) return true;
    }
    return false;
  }
};

// Reads that do not depend on the layer's parameters.
inline std::function<BackwardReads(const LayerParameter&)> Always(BackwardReads reads) {
  return [reads = std::move(reads)](const LayerParameter&) { return reads; };
}

// Which tops share the memory of bottom 0 instead of having a copy.
enum class TopMemory {
  kOwn,
  kSharedIfAlone,  // with one bottom and one top: Flatten, Concat
  kShared,         // always: Split
  kParameter,      // the memory of a parameter: Parameter
};

// What Net, passes and tools must know of a layer type before one is made.
struct LayerTraits {
  // How many bottoms and tops; -1 is no limit.
  int min_bottom = 1, max_bottom = 1;
  int min_top = 1, max_top = 1;
  // A top may be the bottom's blob. Forward and Backward are right then, too, as long as no other
  // layer changes what Backward reads.
  bool in_place = false;
  // In place the same elements stay positive, but for those that get no gradient.
  bool keeps_signs = false;
  TopMemory top_memory = TopMemory::kOwn;
  // Tops are losses: the first has loss weight 1 by default, and makes itself if none is named.
  bool loss = false;
  // Makes data by itself: no bottom decides its type.
  bool data = false;
  // Its tops are inputs of the net: the caller fills them.
  bool input = false;
  // Has no arithmetic: elements of bottom 0 are copied, or given another shape. Without types of its
  // own the layer takes that of bottom 0, and labels remain labels.
  bool moves_elements = false;
  // Reads each bottom of a float kind as it is, and no cast is inserted, unless the user gives the
  // layer types. For layers written by users.
  bool reads_any_float = false;
  // Bottoms and tops that are float whatever the layer's types are: labels.
  std::vector<int> float_bottoms, float_tops;
  // Bottoms that get no gradient: labels.
  std::vector<int> no_gradient_bottoms;
  // The layer has a backward pass at all.
  bool backward = true;
  // The data that Backward reads. Null: it may read every bottom and top (layers of users).
  std::function<BackwardReads(const LayerParameter&)> backward_reads;
  // Types it can be asked for (compute, bottom and top equal).
  std::vector<DataType> types = FloatTypes();
  // Takes any pair of bottom and top types (the Quantizer layer).
  bool converts = false;
  // One line for `caffe layers`.
  std::string summary;
};

// The traits of a layer type, from the registry. Throws for an unknown name, with the nearest one.
const LayerTraits& TraitsOf(const std::string& type);

// What Backward of this layer reads, nothing where it has none.
BackwardReads BackwardReadsOf(const LayerParameter& layer);
// Whether the tops of this layer share the memory of its bottom 0.
bool SharesBottomMemory(const LayerParameter& layer);

}  // namespace caffe
