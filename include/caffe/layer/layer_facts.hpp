#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "caffe/library/chain.hpp"
#include "caffe/library/epilogue.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {

// A top that shares the memory of a bottom or of a parameter. A layer that works in place has no
// alias: its top is its bottom's blob.
struct Alias {
  int top = 0;
  int bottom = -1;
  int parameter = -1;  // index in blobs()
};

// y = scale[c] x + shift[c], where c is the index along an axis of the bottom.
struct Affine {
  int axis = 1;
  int64_t channels = 1;  // extent of the axis, or 1: one scale and one shift for all elements
  // The blobs from which scale and shift are computed. They are the layer's blobs() when Facts is
  // called.
  std::vector<const BlobBase*> sources;
  // Computes `channels` scales and shifts in double from the current values of the sources.
  std::function<void(std::vector<double>* scale, std::vector<double>* shift)> evaluate;

  // y = scale x + shift for all elements.
  static Affine Constant(double scale, double shift);
};

// The parameters of y = scale[c] x + shift[c], where c is the index along an axis of the bottom.
// All of them are learned: Backward computes their gradients.
struct ChannelScale {
  int axis = 1;
  BlobBase* scale = nullptr;
  BlobBase* shift = nullptr;
};

// The properties of a layer after its set-up, for ranges, plan and memory plan. LayerTraits has
// those known before. A layer that does not override Facts has none of the optional ones.
struct LayerFacts {
  // The range of a quantized top.
  enum class Range {
    kOwn,      // its own
    kCarried,  // that of bottom 0: codes are copied, or averaged
    kSame,     // its own; without one, that of bottom 0: the real values do not change
    kTied,     // its own; without one, that of the bottoms if they all have the same
  };

  // All elements of a top lie between these numbers. They are its range where none was observed.
  struct Bounds {
    int top = 0;
    double low = -1, high = 1;
  };

  // y = the sum over all bottoms of coefficients[i] x_i; all bottoms have one shape.
  struct Sum {
    std::vector<double> coefficients;
  };

  // Operations that MakeWork can also be asked to compute before it stores top 0: a scale and a
  // shift per output channel, folded into weights and bias; the sum with another blob of the top's
  // shape; an activation: ReLU, ReLU6, Clip or PReLU, and with `curves` any other one.
  struct Stages {
    int axis = 1;  // of the output channels, in the top
    int64_t channels = 0;
    bool folds = false, sums = false, activates = false, curves = false;
  };

  // Each element of a top is a weighted sum of elements of its bottom plus a bias, so that scaling
  // one channel of the top means scaling the channel's weights and bias. Weights are blobs()[0], of
  // shape
  // [group, outer, channels / group, inner]: channel c = g channels / group + j has the elements
  // [g, :, j, :]. The bias is blobs()[1].
  struct Weighted : Stages {
    int64_t group = 1, outer = 1;
    bool has_bias = false;
    // The scales of the codes of quantized weights, one for each output channel; empty before the
    // first forward. Null for float kinds.
    std::function<std::vector<double>()> code_scales;
  };

  // Layouts of bottoms and tops besides kNCHW in which the layer can be computed; see Plan.
  struct Layouts {
    // In every layout that bottoms and tops share: each element of a top depends on the elements of
    // the bottoms at its place alone. MakeWork gets blobs whose memory has that order.
    bool any = false;
    // MakeWork may be asked for tops in kNHWC, of bottoms in kNHWC.
    bool nhwc = false;
    // That is faster than kNCHW.
    bool prefers_nhwc = false;
    // MakeWork may also be asked for tops in kNHWC of bottoms in kNCHW. With a backward pass, only
    // if that does not compute the gradients of bottoms.
    bool reads_nchw = false;
    // MakeWork may be asked for a work with a backward pass in kNHWC. Layers with `any` are, too.
    bool trains = false;
    // MakeWork may be asked for a top in kNHWC that is a part of the channels of a larger array:
    // LayoutPair::y_pitch.
    bool parts = false;
    // The first so many bottoms have these layouts; the others are read in kNCHW. -1: all have.
    int bottoms = -1;
  };

  // Top 0 holds the bottoms one after the other along `axis`. Forward and the works of MakeWork
  // leave out the copy of a bottom whose memory is its part of the top's (SyncedMemory::LiesIn).
  struct Join {
    int axis = 1;
    std::vector<int64_t> extents;  // of the bottoms along the axis
  };

  // y = (x - mean) / deviation for each channel of axis 1, with statistics that Forward computes.
  // In phase TRAIN, MakeWork may be asked for a work that computes the forward and the backward
  // pass of this layer, of a ChannelScale after it, and of a ReLU after that.
  struct Normalized {
    int64_t channels = 0;
  };

  Range range = Range::kOwn;
  std::optional<Bounds> bounds;
  Layouts layouts;
  std::vector<Alias> aliases;
  // Forward reads or writes memory of the host, waits for the device, or has effects outside the
  // device. Its work cannot be recorded and replayed.
  bool host = false;
  // PrepareParameters, Forward, RepeatForward, Backward and the works of MakeWork enqueue the same
  // work in every pass, unless shapes, ranges, memories or the seed change, and have no effect
  // besides that. The work can be recorded and replayed. In phase TEST, PrepareParameters is not
  // part of it, and the work writes only tops and LayerArrays::kept.
  bool replayable = false;
  // Forward decides the shapes of the tops.
  bool shapes_from_data = false;
  // y = function(x) for each element; not for affine ones. `slopes` belongs to kPReLU: one slope
  // for each channel of axis 1, or one for all.
  std::optional<ElementFunction> function;
  const BlobBase* slopes = nullptr;
  std::optional<Affine> affine;
  std::optional<Sum> sum;
  std::optional<Join> join;
  std::optional<Weighted> weighted;
  // The stages of a layer whose weights are not as Weighted describes.
  std::optional<Stages> own_stages;
  std::optional<ChannelScale> channel_scale;
  std::optional<Normalized> normalized;

  // Null if MakeWork computes the layer alone.
  const Stages* stages() const {
    if (weighted) return &*weighted;
    return own_stages ? &*own_stages : nullptr;
  }
};

}  // namespace caffe
