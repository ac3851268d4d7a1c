#pragma once

#include <string>
#include <vector>

namespace caffe {

class LayerParameter;
class NetParameter;
class NetState;
class NetStateRule;
struct TypedNet;

// Passes: pure functions from net to net. Each has its own file in src/caffe/graph; TypedNet is in
// typed_net.hpp there.

// Whether a state meets a rule; if not, `why` (may be null) gets the reason.
bool StateMeetsRule(const NetState& state, const NetStateRule& rule, std::string* why);

// Whether this layer makes data: LayerTraits::data, and it has no bottoms. A layer of a user may
// have some.
bool IsDataLayer(const LayerParameter& layer);

// Keeps the layers whose rules net.state() meets and sets their phase. Throws if a layer has both
// include and exclude rules. `kept` (may be null) gets the original indices of the kept layers.
NetParameter FilterNet(const NetParameter& net, std::vector<int>* kept = nullptr);

// Sets the types of every layer, from its own fields, from the layer whose top it reads and from
// the net's data_type. A top of a data layer that another layer reads as labels is float, even
// through layers without arithmetic and in place, unless the data layer sets its own types.
// Throws for layer types that are not registered, and for data types that a layer does not support.
TypedNet AssignTypes(const NetParameter& net);

// A layer that works in place in the user's net, and for which SeparateInPlace makes a separate
// blob.
struct InPlaceConflict {
  int layer, top;
  // "layer 'relu1' reads blob conv1 in its backward pass"
  std::string reason;
  int reader;  // the layer whose backward pass reads the blob; -1 for other reasons
};

// Moves conversions between float kinds to the side of a layer with fewer elements, for layers with
// LayerTraits::cast_side: a MAX pooling takes the type of its bottom, and a Tile that of its
// readers. Layers with types of their own stay, and so do nets that keep data for gradients. Runs
// after AssignTypes.
TypedNet MoveCasts(const TypedNet& net);

// The conflicts of a net after AssignTypes: another layer or the user reads the blob that the layer
// would overwrite, the blob has a type in which the layer does not compute, or, with `gradients`, a
// backward pass reads it.
std::vector<InPlaceConflict> FindInPlaceConflicts(const TypedNet& net, bool gradients);
// The layers of a net after SeparateInPlace that overwrite a blob which a backward pass reads.
std::vector<InPlaceConflict> FindGradientConflicts(const TypedNet& net);

// Gives layers that work in place separate blobs where FindInPlaceConflicts finds a conflict. In a
// net that keeps data for gradients, these are considered, and layers that would keep a copy of
// their bottom (BackwardReads::copies_in_place) get separate blobs, too. The last version of a blob
// keeps its name, an earlier one is named <blob>@<layer that wrote it>. Runs after AssignTypes and
// before InsertCasts.
TypedNet SeparateInPlace(const TypedNet& net);

// Inserts a Quantizer layer where a blob's type is not the one that its reader needs. Readers that
// need the same type share it. It is named <blob>_as_<type>. If a cast only reverts an earlier
// lossless one, it is omitted, and the reader reads the original blob. Layers with
// LayerTraits::edges that do not work in place load and store other types themselves, unless the
// net keeps data for gradients.
TypedNet InsertCasts(const TypedNet& net);

// Inserts a Split layer for every blob that is read more than once, with BVLC's name
// <blob>_<layer>_<top>_split; its tops append _0, _1, …. Throws on unknown bottoms.
TypedNet InsertSplits(const TypedNet& net);

}  // namespace caffe
