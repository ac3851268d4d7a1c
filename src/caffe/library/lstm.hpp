#pragma once

#include <cstdint>
#include <string>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/library/operator.hpp"

namespace caffe {

// The recurrent part of LSTM, for all steps t of N sequences:
//   a = gates_t + cont_t W h_(t-1), with the parts i, f, o, g
//   c_t = cont_t sigmoid(f) c_(t-1) + sigmoid(i) tanh(g),  h_t = sigmoid(o) tanh(c_t)
// Where cont is 0, the state before may be anything.
struct LstmDescriptor {
  int64_t steps = 0, items = 0, hidden = 0;  // T, N, H
  DataType type = kFloat;                    // a built-in float kind; cont is float
  bool trains = false;                       // whether Backward is called

  DataType master() const { return type == kDouble ? kDouble : kFloat; }
  int64_t state_count() const { return items * hidden; }
  // "half lstm 50 x 16, 256 units, trains".
  std::string name() const;
};

// Arrays of all steps lie one after the other.
struct LstmArguments {
  DevicePtr gates;             // [T, N, 4H]
  DevicePtr cont;              // [T, N], float
  DevicePtr h_first, c_first;  // [N, H]
  DevicePtr weights;           // [4H, H]
  DevicePtr h;                 // [T, N, H]
  // If the descriptor trains: W h_(t-1) of all steps [T, N, 4H], and c [T, N, H].
  DevicePtr hidden_gates = {}, c = {};
  DevicePtr h_last, c_last;  // [N, H]
  DevicePtr workspace = {};
};

// `values` are those of the forward, whose results are read.
struct LstmGradients {
  LstmArguments values;
  DevicePtr h_diff, h_last_diff, c_last_diff;
  DevicePtr gates_diff;
  DevicePtr h_first_diff = {}, c_first_diff = {};  // both or none
  DevicePtr w_diff = {};                           // in the type of masters; is added to
  DevicePtr scaled_h = {};                         // [T, N, H], scratch
  DevicePtr workspace = {};
};

// That part, prepared for one descriptor on one device.
class LstmOp : public Operator {
 public:
  virtual void Forward(const LstmArguments& arguments) = 0;
  // Throws if the descriptor does not train.
  void Backward(const LstmGradients& gradients);
  const LstmDescriptor& descriptor() const { return descriptor_; }

 protected:
  explicit LstmOp(const LstmDescriptor& descriptor) : descriptor_(descriptor) {}
  virtual void DoBackward(const LstmGradients& gradients) = 0;
  LstmDescriptor descriptor_;
};

}  // namespace caffe
