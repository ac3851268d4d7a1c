#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/core/shape.hpp"

namespace caffe {

class Device;
class NetParameter;

// Rewrites trained models: a model is a NetParameter whose layers hold their parameters in `blobs`,
// as in a caffemodel. A pass is a function from model to model. It describes in `notes`, one
// sentence each, what it changed and what it left as it is. The layers of a model are those of
// phase TEST.
using TransformNotes = std::vector<std::string>;

struct StripOptions {
  // The shape of the first top of each data layer that becomes an Input. Empty: the layer itself is
  // asked, so its data must be there.
  Shape shape;
  // The blobs to compute; empty: the outputs of the net and the scores that losses and accuracies
  // read.
  std::vector<std::string> outputs;
};

// Keeps what inference needs. Removes losses, Accuracy, Silence, layers that are the identity in
// phase TEST (Dropout), Split, and layers on which no output depends; data layers become Inputs.
// Clears rules, fillers, learning rates, decays, loss weights and gradients. If the only sources
// are DummyData layers, these become Inputs.
NetParameter StripForInference(NetParameter model, const StripOptions& options,
                               TransformNotes* notes);

// Folds per-channel maps (BatchNorm with global statistics, Scale, Bias) into weights and bias of
// the layer before them. Computed in double, rounded once. A layer is not folded if another layer
// reads the blob before it, or if the weights are shared.
NetParameter FoldChannelMaps(NetParameter model, TransformNotes* notes);

// Computes layers that depend on no input once; their tops become Parameter layers. Joins linear
// Power layers with each other, with a Power after them and with weights before them, and two
// neighbouring per-channel maps into one Scale layer. Removes Power layers that are the identity.
NetParameter FoldConstants(NetParameter model, TransformNotes* notes);

// Removes Quantizer layers that restore the type before another Quantizer, if that one lost
// nothing, and those that convert a type to itself.
NetParameter RemoveCasts(NetParameter model, TransformNotes* notes);

// Stores parameters as packed data of type half or bfloat16: weights of convolutions and inner
// products, matrices of recurrent layers and of mixtures of experts, and other parameters of at
// least 4096 elements. A parameter that overflows half stays.
NetParameter RoundWeights(NetParameter model, DataType type, TransformNotes* notes);

// Rounds the same parameters to numbers with equal distances between the smallest and the largest
// of each parameter; 0 is one more of the numbers, unless all values have one sign. They stay
// float, so that every Caffe reads them, and compress well. `levels`: how many numbers there are
// together; 0: kDefaultLevels.
constexpr int kDefaultLevels = 256;
NetParameter RoundToLevels(NetParameter model, int levels, TransformNotes* notes);

// Removes layers that compute what an earlier layer computes: type, settings, bottoms and
// parameters are equal, bit for bit. Then equal parameters of at least 4096 elements get a name
// that their layers share, so that a net holds them once.
NetParameter MergeDuplicates(NetParameter model, TransformNotes* notes);

// A blob of which layers read only every n-th row and column (convolutions of 1x1 with a stride) is
// computed with that stride: element-wise layers before it get smaller, and convolutions before
// them take the stride. Where one bottom of an element-wise layer or a Concat cannot take it, a
// pooling layer of 1x1 picks the elements. Outputs do not change.
NetParameter MoveStrides(NetParameter model, TransformNotes* notes);

// Stores the same weights, without other parameters, as symmetric codes of quant8 or quant16, with
// their scales in NetParameter.quantizer: one for each output channel if channels are the first
// axis of the weights, else one for all. Nets that compute in the type take the codes as they are;
// others decode them to float.
NetParameter QuantizeWeights(NetParameter model, DataType type, TransformNotes* notes);

struct TransformOptions {
  // Names of passes in the order of execution; "all" stands for AllPasses().
  std::vector<std::string> passes;
  StripOptions strip;
  // For round: half or bfloat16; for quantize_weights: int8 or int16. Empty: half, int8.
  std::string type;
  int levels = 0;  // for round_levels; 0: kDefaultLevels
  // The device of the comparison; null means the CPU.
  Device* device = nullptr;
  uint64_t seed = 1;
  // Values of inputs by name; other inputs are uniform in [-1, 1].
  std::map<std::string, std::vector<float>> inputs;
  std::map<std::string, Shape> input_shapes;  // of these values, if they are known
};

// The names that TransformOptions::passes may have, without "all": those of the registry
// (pass_registry.hpp).
std::vector<std::string> TransformPasses();
// The passes of "all".
std::vector<std::string> AllPasses();
// Throws for an unknown pass, listing the known ones, and for a type that a pass does not have.
void CheckPasses(const TransformOptions& options);

struct PassReport {
  std::string name;
  int layers_before = 0, layers_after = 0;
  int64_t bytes_before = 0, bytes_after = 0;  // of the caffemodel
  TransformNotes notes;
};

// How far an output of two nets differs for the same input.
struct OutputDifference {
  std::string blob;
  int64_t count = 0, items = 0;  // items: extent of axis 0
  // Elements that are infinite or NaN in one of the nets; the others give the numbers below, which
  // are NaN if there are none. An item with a NaN has no largest element.
  int64_t not_finite = 0;
  double largest = 0;  // magnitude, in the first net
  double largest_difference = 0;
  double relative = 0;  // largest_difference / largest
  double cosine = 1;
  int64_t same_argmax = 0;  // items whose largest element has the same index
};

// The bytes of the caffemodel in a file of gzip or zstd.
struct PackedSize {
  std::string program;
  int64_t before = 0, after = 0;
};

struct TransformReport {
  std::vector<PassReport> passes;
  // With round_levels, for the programs that the machine has.
  std::vector<PackedSize> packed;
  std::vector<OutputDifference> outputs;
};

// Every output of the first model, without losses and accuracies, that the second one has, too.
std::vector<OutputDifference> CompareOutputs(const NetParameter& first, const NetParameter& second,
                                             const TransformOptions& options);

// Runs the passes and compares the outputs. Throws if the weights do not fit.
NetParameter TransformModel(NetParameter model, const TransformOptions& options,
                            TransformReport* report);

// The layers of a net in phase TEST with the parameters of the same names from `weights`. Codes are
// decoded to float.
NetParameter JoinModel(const NetParameter& net, NetParameter weights);
// JoinModel with caffemodels or HDF5 files; later files replace weights of earlier ones. `strict`:
// throws for parameters that no layer of the net takes. A layer without its parameters is always an
// error of what is made of the model. `coded` (may be null) gets the types of codes that were
// decoded.
NetParameter ReadModel(const NetParameter& net, const std::vector<std::string>& weights,
                       bool strict = false, std::set<std::string>* coded = nullptr);
NetParameter ReadModel(const std::string& net, const std::vector<std::string>& weights,
                       bool strict = false);
// Writes prefix.prototxt and prefix.caffemodel. Both are complete before either gets its name.
void WriteModel(const NetParameter& model, const std::string& prefix);

}  // namespace caffe
