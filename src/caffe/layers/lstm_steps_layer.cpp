#include <memory>
#include <optional>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/layer/has_pseudo_weights.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/operator_weights.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/rounding.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

// All steps t of LSTM (Hochreiter and Schmidhuber 1997), as in BVLC's Caffe:
//   a = gates_t + cont_t W h_(t-1), with the parts a_i, a_f, a_o, a_g
//   c_t = cont_t sigmoid(a_f) c_(t-1) + sigmoid(a_i) tanh(a_g),  h_t = sigmoid(a_o) tanh(c_t)
// It is a part of LSTM, which computes gates from x. For gradients see LSTMUnit.
// bottom 0: gates [T, N, 4H]; bottom 1: cont [T, N]; bottoms 2 and 3: h and c before the first step
// [1, N, H]. top 0: h [T, N, H]; tops 1 and 2: h and c of the last step [1, N, H]. Not in place.
// No gradient of cont. Where cont is 0, the state before may be anything. In phase TEST nothing is
// kept for the gradients: their pass computes the steps again.
// blobs: W [4H, H], masters (float, double for double).
// recurrent_param: num_output H, weight_filler.
// Types: float kinds; cont is float.
class LSTMSteps : public LayerBase, public HasPseudoWeights {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void CountMemory(WorkMemory* memory) const override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;
  void set_pseudo_weights(std::optional<DataType> type) override;

 private:
  void MakeWeights();
  // Whether Forward keeps what Backward reads.
  bool Keeps() const { return need_backward() && phase() == TRAIN; }
  // Makes an operator for the shapes of the last Reshape, unless there is one that trains so.
  void Ensure(std::unique_ptr<LstmOp>* op, bool trains);
  LstmArguments Arguments(const BlobVec& bottom);
  bool ForwardOnly() const { return phase() == TEST && !need_backward(); }

  LstmDescriptor d_;
  std::optional<DataType> pseudo_;
  std::unique_ptr<OperatorWeights> weights_;
  std::unique_ptr<LstmOp> op_, backward_;  // backward_: if Forward keeps nothing
  // W h of all steps, and c, for the gradients; arrays of their pass: h again, and scaled.
  std::shared_ptr<BlobBase> hidden_gates_, c_, h_, scaled_h_;
};

template <class Dtype, class MItype, class MOtype>
using LSTMStepsLayer = Layer<Dtype, MItype, MOtype, LSTMSteps>;

void LSTMSteps::LayerSetUp(const BlobVec&, const BlobVec&) {
  const RecurrentParameter& parameter = layer_param().recurrent_param();
  d_.hidden = parameter.num_output();
  d_.type = types().compute;
  CAFFE_CHECK(d_.hidden > 0, Where(), ": num_output of recurrent_param must be given and positive");
  AddParameter(0, {4 * d_.hidden, d_.hidden}, parameter.weight_filler());
  MakeWeights();
  op_.reset();
  backward_.reset();
  for (const auto& blob : {hidden_gates_, c_, h_, scaled_h_}) {
    if (blob) blob->SetDevice(device());
  }
}

void LSTMSteps::MakeWeights() {
  OperatorWeights::Source source;
  source.weights = blobs_[0].get();
  source.layout.channels = 4 * d_.hidden;
  source.pseudo = pseudo_;
  weights_ = std::make_unique<OperatorWeights>(std::move(source), types().compute, device());
}

void LSTMSteps::set_pseudo_weights(std::optional<DataType> type) {
  if (type == pseudo_) return;
  pseudo_ = type;
  MakeWeights();
  if (op_) PrepareParameters();  // a backward pass may follow
}

void LSTMSteps::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const Shape& gates = bottom[0]->shape();
  CAFFE_CHECK(gates.size() == 3 && gates[0] > 0 && gates[2] == 4 * d_.hidden, Where(),
              ": gates must have the shape T N ", 4 * d_.hidden, "; bottom 0 has shape ",
              bottom[0]->shape_string());
  CAFFE_CHECK(bottom[1]->shape() == Shape({gates[0], gates[1]}), Where(),
              ": cont must have the shape ", gates[0], " ", gates[1], "; it has shape ",
              bottom[1]->shape_string());
  const Shape state{1, gates[1], d_.hidden};
  for (const int b : {2, 3}) {
    CAFFE_CHECK(bottom[b]->shape() == state, Where(), ": bottom ", b, " must have the shape ",
                ShapeString(state), "; it has shape ", bottom[b]->shape_string());
  }
  top[0]->Reshape({gates[0], gates[1], d_.hidden});
  top[1]->Reshape(state);
  top[2]->Reshape(state);
  if (hidden_gates_ && hidden_gates_->shape() == gates) return;
  d_.steps = gates[0];
  d_.items = gates[1];
  const auto make = [&](const char* what, const BlobBase& like) {
    return MakeBlob(types().compute, device(), like.shape(), Concat(name(), " ", what));
  };
  hidden_gates_ = make("hidden gates", *bottom[0]);
  c_ = make("c", *top[0]);
  h_ = make("h again", *top[0]);
  scaled_h_ = make("scaled h", *top[0]);
  op_.reset();
  backward_.reset();
}

void LSTMSteps::Ensure(std::unique_ptr<LstmOp>* op, bool trains) {
  if (d_.items == 0 || (*op && (*op)->descriptor().trains == trains)) return;
  d_.trains = trains;
  try {
    *op = Multiplexer::Lstm(device(), d_);
  } catch (...) {
    RethrowIn(Where());
  }
}

void LSTMSteps::PrepareParameters() {
  Ensure(&op_, Keeps());
  if (op_) workspace().Need(op_->workspace_bytes());
  weights_->Refresh(ForwardOnly());
}

void LSTMSteps::CountMemory(WorkMemory* memory) const {
  weights_->CountMemory(ForwardOnly(), false, memory);
}

LstmArguments LSTMSteps::Arguments(const BlobVec& bottom) {
  LstmArguments a;
  a.gates = bottom[0]->device_data();
  a.cont = bottom[1]->device_data();
  a.h_first = bottom[2]->device_data();
  a.c_first = bottom[3]->device_data();
  a.weights = weights_->weights().device_data();
  return a;
}

void LSTMSteps::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (d_.items == 0) return;
  if (!op_) PrepareParameters();
  LstmArguments a = Arguments(bottom);
  a.h = top[0]->mutable_device_data();
  a.h_last = top[1]->mutable_device_data();
  a.c_last = top[2]->mutable_device_data();
  if (op_->descriptor().trains) {
    a.hidden_gates = hidden_gates_->mutable_device_data();
    a.c = c_->mutable_device_data();
  }
  a.workspace = workspace().Need(op_->workspace_bytes());
  op_->Forward(a);
}

void LSTMSteps::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  const bool wants_weights = param_propagate_down(0);
  const bool wants_first = propagate_down[2] || propagate_down[3];
  if (d_.items == 0 || !(wants_weights || propagate_down[0] || wants_first)) return;
  LstmGradients g;
  const bool kept = op_ && op_->descriptor().trains;
  if (!kept) Ensure(&backward_, true);
  LstmOp* const op = kept ? op_.get() : backward_.get();
  g.h_diff = top[0]->device_diff();
  g.h_last_diff = top[1]->device_diff();
  g.c_last_diff = top[2]->device_diff();
  // Diffs that are not wanted are written behind the operator's workspace.
  const int64_t bytes = RoundUp(op->workspace_bytes(), 256);
  const auto elements = static_cast<int64_t>(d_.type.bytes());
  const bool spares = !kept || !propagate_down[0] || propagate_down[2] != propagate_down[3];
  const int64_t spare = propagate_down[0] ? d_.state_count() : 4 * d_.steps * d_.state_count();
  g.workspace = workspace().Need(spares ? bytes + (spare + d_.state_count()) * elements : bytes);
  const DevicePtr unwanted = g.workspace + bytes;
  g.values = Arguments(bottom);
  if (!kept) {
    LstmArguments again = g.values;
    again.hidden_gates = hidden_gates_->mutable_device_data();
    again.c = c_->mutable_device_data();
    again.h = h_->mutable_device_data();
    again.h_last = unwanted;
    again.c_last = unwanted + spare * elements;
    again.workspace = g.workspace;
    op->Forward(again);
  }
  g.values.hidden_gates = hidden_gates_->device_data();
  g.values.c = c_->device_data();
  g.values.h = (kept ? *top[0] : *h_).device_data();
  g.gates_diff = propagate_down[0] ? bottom[0]->mutable_device_diff() : unwanted;
  if (wants_first) {
    const auto diff = [&](int b) {
      return propagate_down[b] ? bottom[b]->mutable_device_diff() : unwanted + spare * elements;
    };
    g.h_first_diff = diff(2);
    g.c_first_diff = diff(3);
  }
  if (wants_weights) g.w_diff = blobs_[0]->mutable_device_diff();
  g.scaled_h = scaled_h_->mutable_device_data();
  op->Backward(g);
}

LayerArrays LSTMSteps::Arrays(const BlobVec&, const BlobVec&) {
  if (!need_backward() || d_.items == 0) return {};
  if (Keeps()) return {{hidden_gates_.get(), c_.get()}, {scaled_h_.get()}};
  return {{}, {hidden_gates_.get(), c_.get(), h_.get(), scaled_h_.get()}};
}

LayerFacts LSTMSteps::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterLSTMStepsLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 4;
  traits.min_top = traits.max_top = 3;
  traits.float_bottoms = traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{BackwardReads::kAll}, {0}});
  traits.summary = "all steps of LSTM, behind the product with x";
  registry.Add<LSTMStepsLayer>("LSTMSteps", traits);
}

}  // namespace caffe
