#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/data_type.hpp"

namespace caffe {

class Device;
class LayerParameter;

// The data that a layer's Backward reads, by the indices of bottoms and tops; kAll means every one.
// Diffs and parameters are not listed.
struct BackwardReads {
  static constexpr int kAll = -1;
  std::vector<int> bottoms, tops;
  // A layer that works in place reads a private copy of bottom 0 (InputCopy) instead of the blob.
  bool copies_in_place = false;
  // Whether Backward uses only which elements of this data are positive.
  bool only_signs = false;
  // Bottom 0 is read only for the gradient of parameter 0.
  bool for_parameter = false;

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

// For traits that do not depend on the layer's parameters.
template <class T = BackwardReads> std::function<T(const LayerParameter&)> Always(T value) {
  return [value = std::move(value)](const LayerParameter&) { return value; };
}

// Which tops share the memory of bottom 0 and are not copies.
enum class TopMemory {
  kOwn,
  kSharedIfAlone,  // with one bottom and one top: Flatten, Concat
  kShared,         // always: Split
  kParameter,      // the memory of a parameter: Parameter
};

// On which side of a layer a conversion between float kinds has fewer elements.
enum class CastSide { kNone, kBefore, kAfter };

// The layer that computes another one with weights of its own for each group of rows, as the
// experts of a mixture need: a WeightedLayer.
struct GroupedForm {
  std::string type;
  int blobs = 0;  // of each group
  // Whether a library of the device computes all groups in this type by one operator, at
  // least for most shapes.
  std::function<bool(DataType type, Device* device)> joint;
};

// For LayerTraits::edges. Of an element-wise layer, whose body loads, computes in float and stores:
// any two float kinds but double, of which one is float, or equal ones.
std::optional<TypeTriple> ElementwiseEdges(const TypeTriple& wanted);
// The types of a layer with a matrix product, whose sums of narrow float kinds may be stored as
// float.
std::optional<TypeTriple> ProductEdges(const TypeTriple& wanted);
// The same, and sums of codes of 8 bits.
std::optional<TypeTriple> ProductOrCodeEdges(const TypeTriple& wanted);

// The properties of a layer type that Net, passes and tools need before a layer exists.
struct LayerTraits {
  // The numbers of bottoms and tops; -1 means no limit.
  int min_bottom = 1, max_bottom = 1;
  int min_top = 1, max_top = 1;
  // A top may be the bottom's blob. Forward and Backward are also correct then, as long as no other
  // layer changes what Backward reads.
  bool in_place = false;
  // In place, the same elements stay positive, except elements without a gradient.
  bool keeps_signs = false;
  TopMemory top_memory = TopMemory::kOwn;
  // Tops are losses: the first has loss weight 1 by default, and is created if the prototxt names
  // none.
  bool loss = false;
  // Makes data: its type does not depend on a bottom.
  bool data = false;
  // Its tops are inputs of the net: the caller fills them.
  bool input = false;
  // Has no arithmetic: elements of bottom 0 are copied, or given another shape. Without types of
  // its own the layer takes that of bottom 0, and labels remain labels.
  bool moves_elements = false;
  // Reads each bottom of a float kind as it is, and no cast is inserted, unless the user gives the
  // layer types. For layers written by users.
  bool reads_any_float = false;
  // Bottoms and tops that are float whatever the layer's types are: labels.
  std::vector<int> float_bottoms, float_tops;
  // Bottoms without a gradient: labels.
  std::vector<int> no_gradient_bottoms;
  // The layer has a backward pass at all.
  bool backward = true;
  // The data that Backward reads. Null: it may read every bottom and top (layers of users).
  std::function<BackwardReads(const LayerParameter&)> backward_reads;
  // Supported types (compute, bottom and top equal).
  std::vector<DataType> types = FloatTypes();
  // Whether a layer with these parameters supports the quantized ones of `types`. Null: every layer
  // does. In a quantized net the others stay float.
  std::function<bool(const LayerParameter&)> quantizes;
  // Whether a layer with these parameters multiplies codes of 8 bits in mode dynamic, with bottoms
  // and tops in float: the types are then {quant8, float, float}. Null: it computes in float.
  std::function<bool(const LayerParameter&)> dynamic;
  // The types in which the layer computes without casts at its edges, for wanted types of compute,
  // bottoms and tops that are not equal; nothing if it needs casts. Null: it always does.
  std::function<std::optional<TypeTriple>(const TypeTriple&)> edges;
  // Whether a user gave the type a function of its own for this layer: RegisterTypeFunction.
  std::function<bool(DataType)> own_function;
  // A layer that computes in codes reads and writes float.
  bool float_ends = false;
  // For layers whose result is the same whether their bottoms or their tops are converted between
  // float kinds: where there are fewer elements. Null: kNone.
  std::function<CastSide(const LayerParameter&)> cast_side;
  // Whether a layer with these parameters computes each item (index of axis 0) by itself, and has
  // no weights, so that it can compute the rows of all experts of a mixture. Null: it does not.
  std::function<bool(const LayerParameter&)> per_item;
  // The grouped form of a layer with these parameters, if it has one. Null: it has none.
  std::function<std::optional<GroupedForm>(const LayerParameter&)> grouped_form;
  // The top holds probabilities; the scores from which they are computed are bottom 0.
  bool probabilities = false;
  // Supports any pair of bottom and top types (the Quantizer layer).
  bool converts = false;
  // One line for `caffe layers`.
  std::string summary;
};

// The traits of a layer type, from the registry. Throws for an unknown name and suggests the
// nearest one.
const LayerTraits& TraitsOf(const std::string& type);

// The data that Backward of this layer reads; nothing if it has no backward pass.
BackwardReads BackwardReadsOf(const LayerParameter& layer);
// Whether the tops of this layer share the memory of its bottom 0.
bool SharesBottomMemory(const LayerParameter& layer);

}  // namespace caffe
