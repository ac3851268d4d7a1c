// LSTM by a product and a kernel for each step, on every device.
#include <algorithm>
#include <memory>

#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

// kernels/neuron/lstm_unit.h, and the products of the state with the weights.
class LstmProductsOp final : public LstmOp {
 public:
  LstmProductsOp(Device* device, const LstmDescriptor& d)
      : LstmOp(d), device_(device), state_bytes_(Bytes(d.state_count())) {
    const auto unit =
        ProgramBuilder(device, "lstm unit").Types(d.type).Body("neuron/lstm_unit").Build();
    forward_ = unit->CreateKernel("lstm_unit_forward");
    GemmDescriptor product;
    product.in = product.out = d.type;
    product.m = d.items;
    product.n = 4 * d.hidden;
    product.k = d.hidden;
    product.trans_b = true;
    product_ = Multiplexer::Gemm(device, product);
    products_workspace_ = product_->workspace_bytes();
    if (d.trains) {
      backward_ = unit->CreateKernel("lstm_unit_backward");
      add_ = ProgramBuilder(device, "add")
                 .Types(d.type)
                 .Body("neuron/add")
                 .Build()
                 ->CreateKernel("add");
      std::swap(product.n, product.k);
      product.trans_b = false;
      data_ = Multiplexer::Gemm(device, product);
      GemmDescriptor weights;
      weights.in = d.type;
      weights.out = d.master();
      weights.trans_a = true;
      weights.m = 4 * d.hidden;
      weights.n = d.hidden;
      weights.k = d.items;
      weights_ = Multiplexer::Gemm(device, weights);
      products_workspace_ =
          std::max({products_workspace_, data_->workspace_bytes(), weights_->workspace_bytes()});
    }
    gates_at_ = layout_.Add(4 * state_bytes_);
    for (int64_t& at : c_at_) at = layout_.Add(state_bytes_);
    h_diff_at_ = layout_.Add(state_bytes_);
    products_at_ = layout_.Add(products_workspace_);
  }
  const char* library() const override { return "products"; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  void Forward(const LstmArguments& a) override {
    const LstmDescriptor& d = descriptor_;
    const DevicePtr own_gates = a.workspace + gates_at_;
    for (int64_t t = 0; t < d.steps; ++t) {
      const DevicePtr h_before = t > 0 ? Step(a.h, t - 1) : a.h_first;
      const DevicePtr hidden = d.trains ? Step(a.hidden_gates, t, 4) : own_gates;
      Run(product_.get(), h_before, a.weights, hidden, 0, a.workspace);
      // Without `trains`, c of two steps in turns.
      const auto c = [&](int64_t step) {
        return d.trains ? Step(a.c, step) : a.workspace + c_at_[step % 2];
      };
      forward_->Launch({d.items, d.hidden},
                       {d.items, d.hidden, 1, t > 0 ? c(t - 1) : a.c_first, Step(a.gates, t, 4),
                        Cont(a.cont, t), hidden, c(t), Step(a.h, t)});
      if (t + 1 < d.steps) continue;
      device_->Copy(a.c_last, c(t), state_bytes_);
      device_->Copy(a.h_last, Step(a.h, t), state_bytes_);
    }
  }

 protected:
  void DoBackward(const LstmGradients& g) override {
    const LstmDescriptor& d = descriptor_;
    const LstmArguments& a = g.values;
    const DevicePtr hidden_diff = g.workspace + gates_at_, h_diff = g.workspace + h_diff_at_;
    for (int64_t t = d.steps - 1; t >= 0; --t) {
      if (t == d.steps - 1) {
        add_->Launch(d.state_count(), {d.state_count(), Step(g.h_diff, t), g.h_last_diff, h_diff});
      } else {
        device_->Copy(h_diff, Step(g.h_diff, t), state_bytes_);
        Run(data_.get(), hidden_diff, a.weights, h_diff, 1, g.workspace);
      }
      const DevicePtr c_diff = t == d.steps - 1 ? g.c_last_diff : g.workspace + c_at_[(t + 1) % 2];
      const bool first = t == 0 && g.c_first_diff;
      backward_->Launch(
          {d.items, d.hidden},
          {d.items, d.hidden, 1, 1, 1, 1, t > 0 ? Step(a.c, t - 1) : a.c_first, Step(a.gates, t, 4),
           Cont(a.cont, t), Step(a.hidden_gates, t, 4), Step(a.c, t), c_diff, h_diff,
           first ? g.c_first_diff : g.workspace + c_at_[t % 2], Step(g.gates_diff, t, 4),
           hidden_diff});
      if (g.w_diff) {
        Run(weights_.get(), hidden_diff, t > 0 ? Step(a.h, t - 1) : a.h_first, g.w_diff, 1,
            g.workspace);
      }
    }
    if (g.h_first_diff) Run(data_.get(), hidden_diff, a.weights, g.h_first_diff, 0, g.workspace);
  }

 private:
  int64_t Bytes(int64_t count) const {
    return count * static_cast<int64_t>(descriptor_.type.bytes());
  }
  DevicePtr Step(DevicePtr all, int64_t t, int64_t states = 1) const {
    return all + t * states * state_bytes_;
  }
  DevicePtr Cont(DevicePtr cont, int64_t t) const {
    return cont + t * descriptor_.items * static_cast<int64_t>(kFloat.bytes());
  }
  void Run(GemmOp* op, DevicePtr a, DevicePtr b, DevicePtr c, double beta,
           DevicePtr workspace) const {
    GemmArguments product{a, b, c};
    product.beta = beta;
    product.workspace = products_workspace_ > 0 ? workspace + products_at_ : DevicePtr();
    op->Run(product);
  }

  Device* device_;
  const int64_t state_bytes_;
  std::unique_ptr<Kernel> forward_, backward_, add_;
  std::unique_ptr<GemmOp> product_, data_, weights_;
  int64_t products_workspace_ = 0;
  WorkspaceLayout layout_;
  int64_t gates_at_ = 0, c_at_[2] = {}, h_diff_at_ = 0, products_at_ = 0;
};

}  // namespace

LstmLibrary LstmProductsLibrary() {
  LstmLibrary row;
  row.name = "products";
  row.supports = [](Device*, const LstmDescriptor&) { return true; };
  row.make = [](Device* device, const LstmDescriptor& d) {
    return std::make_unique<LstmProductsOp>(device, d);
  };
  return row;
}

}  // namespace caffe
