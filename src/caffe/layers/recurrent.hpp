#pragma once

#include <string>
#include <vector>

#include "caffe/layer/sub_net.hpp"

namespace caffe {

// Layers that are computed step by step along axis 0 of bottom 0, the time: the base of LSTM, RNN
// and GRU. The net of such a layer has its layers once for each of the T time steps, or one layer
// that computes all steps.
// bottoms: x [T, N, …]; cont [T, N], 0 where a sequence begins and 1 where it continues; optionally
//   static input [N, …], the same in all steps; with expose_hidden the first states [1, N, H] of
//   StateNames().
// tops: y [T, N, H]; with expose_hidden the last states [1, N, H].
// Without expose_hidden, the first states are the last ones of the forward before, and 0 in the
// first forward and after a change of N. Gradients end at the first step. T is that of the set-up;
// N may change.
// With recompute: true, a backward pass computes the steps again in parts of about sqrt(T) steps,
// from the states before each part, which are kept; the product with x is kept, too.
// In quant8, the products with x, h and static input have codes as operands and float sums; all
// else, bottoms and tops included, is float. Codes of h are those of [-1, 1]; x and static input
// need an observed range, and first states of expose_hidden, too.
// recurrent_param: num_output H, weight_filler, bias_filler, expose_hidden (false), debug_info
//   (false): the lines of nested layers in the log.
class Recurrent : public CompositeLayer {
 public:
  using CompositeLayer::CompositeLayer;
  // The traits of a layer with so many states.
  static LayerTraits Traits(int states);
  SubNet Expand(const BlobVec& bottom, int tops) override;
  void Connect(const std::vector<std::shared_ptr<LayerBase>>& nested) override;
  void CheckShapes(const BlobVec& bottom) const override;
  bool debug_info() const override;
  bool fixed_ranges() const override { return true; }

 protected:
  // The net while it grows. Names are those of BVLC's Caffe where it has the layer.
  class Builder {
   public:
    Builder(NetParameter* net, const LayerBase& layer);
    LayerParameter* Add(const std::string& type, const std::string& name,
                        const std::vector<std::string>& bottoms,
                        const std::vector<std::string>& tops);
    // A product with shared weights `parameter` and, if `bias` is not empty, that bias; in the type
    // of the layer, with sums in float if that is codes.
    void Product(const std::string& name, const std::string& bottom, const std::string& top,
                 int axis, int64_t outputs, const std::string& parameter,
                 const std::string& bias = "");
    // Cuts axis 0 into single steps <blob>_1, <blob>_2, …; in the type, if it is given.
    void Steps(const std::string& blob, int64_t steps, const std::string& type = "");

   private:
    NetParameter* net_;
    const LayerBase& layer_;
  };

  // The states, without the number of a step: "h".
  virtual std::vector<std::string> StateNames() const = 0;
  // The input of the gates: outputs of the product with x, and names of its parameters and of the
  // weights of the static input.
  struct InputProduct {
    int64_t outputs;
    std::string weights, bias, static_weights;
  };
  virtual InputProduct InputOfGates() const = 0;
  // Whether one layer computes all steps of such bottoms: AddAllSteps then replaces AddStep. It
  // reads x_gates, cont and the states <name>_0, and writes h and the states <name>_last.
  virtual bool JoinsSteps(const BlobVec& bottom) const { return false; }
  virtual void AddAllSteps(Builder* net) const {}
  // Adds the layers of step t, from 1 on. They read x_gates_<t>, cont_<t> and the states of step
  // t - 1, <name>_<t - 1>, and write those of step t.
  virtual void AddStep(Builder* net, int64_t t) const = 0;
  // Adds what follows h [T, N, H]; returns the blob of the first top.
  virtual std::string AddOutput(Builder*) const { return "h"; }
  // The remaining parameters, after those of the input product: by default that of the product
  // "transform" with the state before, or of the layer "steps" of AddAllSteps.
  virtual void AppendParameters(std::vector<SubNet::Parameter>* parameters) const;
  // cont is read in the type of the layer, not in float.
  virtual bool ConvertsCont() const { return false; }

  int64_t hidden() const;
  bool exposes_hidden() const;
  bool joins_steps() const { return joins_steps_; }
  bool computes_codes() const { return types().compute.is_quantized(); }

 private:
  void AddInput(Builder* net, bool has_static, int64_t steps) const;
  void AddStates(Builder* net, const std::vector<std::string>& names, int64_t steps,
                 SubNet* sub) const;

  int64_t steps_ = 0;
  bool joins_steps_ = false;
};

}  // namespace caffe
