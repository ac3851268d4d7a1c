#pragma once

#include <vector>

#include "caffe/layer/layer_facts.hpp"
#include "flow.hpp"

namespace caffe {

// Which maps y = scale[c] x + shift[c] a pass takes: those with learned values, or constants.
enum class MapKind { kLearned, kConstant };

// Folds maps into the weights before them: see FoldChannelMaps. Layers that are left out are noted
// if they hold learned values. Removed layers stay in the list: WithoutRemovedLayers.
void FoldIntoWeights(NetParameter* model, const Net& net, MapKind kind, TransformNotes* notes);

struct MapValues {
  std::vector<double> scale, shift;  // of one length: 1 or the number of channels
};
MapValues Evaluate(const Affine& map);
// The map that applies `first` and then `second`; their lengths are equal, or one of them is 1.
MapValues Join(const MapValues& first, const MapValues& second);
// Whether all values are finite as floats.
bool FitsFloat(const MapValues& map);

// Stores values as a blob of float.
void SetValues(const std::vector<double>& values, const std::vector<int64_t>& shape,
               BlobProto* blob);

}  // namespace caffe
