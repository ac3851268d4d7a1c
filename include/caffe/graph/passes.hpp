#pragma once

#include <string>
#include <vector>

namespace caffe {

class LayerParameter;
class NetParameter;
class NetState;
class NetStateRule;
struct TypedNet;

// Passes: pure functions from net to net. Each has a file of its own in src/caffe/graph; TypedNet is
// in typed_net.hpp there.

// Whether a rule admits a state; if not, `why` (may be null) gets the reason.
bool StateMeetsRule(const NetState& state, const NetStateRule& rule, std::string* why);

// Keeps the layers that net.state() admits and gives each its phase. Throws if a layer has both
// include and exclude rules. `kept` (may be null) gets the places that the kept layers had.
NetParameter FilterNet(const NetParameter& net, std::vector<int>* kept = nullptr);

// Gives every layer its types, from its own fields, the layer it reads from and the net's data_type. A
// top of a source that somebody reads as labels is float, also through layers without arithmetic and
// in place, unless the source has types of its own. Throws for layer types that are not registered,
// and for data types that a layer cannot have.
TypedNet AssignTypes(const NetParameter& net);

// A layer that works in place in the user's net and that SeparateInPlace takes out of place there.
struct InPlaceConflict {
  int layer, top;
  // "layer 'relu1' reads blob conv1 in its backward pass"
  std::string reason;
  int reader;  // the layer whose backward pass reads the blob; -1 for other reasons
};

// The conflicts of a net that AssignTypes has seen: another layer or the user reads what the layer
// would overwrite, the blob has a type that the layer does not compute in, or, with `gradients`, a
// backward pass reads it.
std::vector<InPlaceConflict> FindInPlaceConflicts(const TypedNet& net, bool gradients);

// Gives layers that work in place a blob of their own where FindInPlaceConflicts names them; gradients
// count in a net that keeps them. The last version of a blob keeps its name, an earlier one is called
// <blob>@<layer that wrote it>. Runs after AssignTypes and before InsertCasts.
TypedNet SeparateInPlace(const TypedNet& net);

// Puts a Quantizer layer where a blob's type is not the one that its reader wants. Readers of one
// blob that want the same type share one. Named <blob>_as_<type>. A cast back to the type that a blob
// was computed in is left out where the way there loses nothing: the reader takes the original.
TypedNet InsertCasts(const TypedNet& net);

// Gives every blob that is read more than once a Split layer, named as BVLC names it:
// <blob>_<layer>_<top>_split, its tops with _0, _1, … behind. Throws on unknown bottoms.
TypedNet InsertSplits(const TypedNet& net);

}  // namespace caffe
