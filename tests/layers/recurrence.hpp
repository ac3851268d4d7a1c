#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "net/net_support.hpp"

namespace caffe {

using Numbers = std::vector<double>;

// The formulas of recurrent layers, as loops in double.
struct Recurrence {
  enum Kind { kLSTM, kRNN, kGRU };

  Kind kind = kLSTM;
  int64_t steps = 0, items = 0, inputs = 0, hidden = 0, static_inputs = 0;  // T, N, D, H, S
  std::vector<Numbers> blobs;                                               // in the order of files

  // How the products with the state read it.
  std::function<double(double)> read_state = [](double h) { return h; };

  int64_t gates() const { return (kind == kLSTM ? 4 : kind == kGRU ? 3 : 1) * hidden; }
  const Numbers& hidden_weights() const { return blobs[static_inputs > 0 ? 3 : 2]; }

  static double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  // Row `row` of W times v.
  static double Dot(const Numbers& w, int64_t row, const double* v, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += w[row * count + i] * v[i];
    return sum;
  }

  // `h` and `c`: the states before the first step [N, H], and afterwards those of the last one.
  Numbers Run(const Numbers& x, const Numbers& cont, const Numbers& fixed, Numbers* h,
              Numbers* c) const {
    Numbers y;
    for (int64_t t = 0; t < steps; ++t) {
      for (int64_t n = 0; n < items; ++n) {
        Step(&x[(t * items + n) * inputs], cont[t * items + n],
             static_inputs > 0 ? &fixed[n * static_inputs] : nullptr, &(*h)[n * hidden],
             &(*c)[n * hidden]);
        for (int64_t j = 0; j < hidden; ++j) y.push_back(Output(&(*h)[n * hidden], j));
      }
    }
    return y;
  }

 private:
  double Output(const double* h, int64_t j) const {
    if (kind != kRNN) return h[j];
    const size_t first = static_inputs > 0 ? 4 : 3;
    Numbers state(hidden);
    for (int64_t i = 0; i < hidden; ++i) state[i] = read_state(h[i]);
    return std::tanh(Dot(blobs[first], j, state.data(), hidden) + blobs[first + 1][j]);
  }

  void Step(const double* x, double cont, const double* fixed, double* h, double* c) const {
    Numbers a(gates()), b(gates()), state(hidden);
    for (int64_t i = 0; i < hidden; ++i) state[i] = read_state(h[i]);
    for (int64_t g = 0; g < gates(); ++g) {
      a[g] = blobs[1][g] + Dot(blobs[0], g, x, inputs);
      if (fixed) a[g] += Dot(blobs[2], g, fixed, static_inputs);
      b[g] = cont * Dot(hidden_weights(), g, state.data(), hidden);
    }
    for (int64_t j = 0; j < hidden; ++j) {
      const auto sum = [&](int64_t part) { return a[part * hidden + j] + b[part * hidden + j]; };
      if (kind == kLSTM) {
        c[j] = cont * Sigmoid(sum(1)) * c[j] + Sigmoid(sum(0)) * std::tanh(sum(3));
        h[j] = Sigmoid(sum(2)) * std::tanh(c[j]);
      } else if (kind == kRNN) {
        h[j] = std::tanh(sum(0));
      } else {
        const double r = Sigmoid(sum(0)), z = Sigmoid(sum(1));
        const double fresh = std::tanh(a[2 * hidden + j] + r * b[2 * hidden + j]);
        h[j] = (1 - z) * fresh + z * cont * h[j];
      }
    }
  }
};

inline std::string TypeName(Recurrence::Kind kind) {
  return kind == Recurrence::kLSTM ? "LSTM" : kind == Recurrence::kRNN ? "RNN" : "GRU";
}

// A net of one recurrent layer, with its formulas.
class RecurrentNet {
 public:
  struct Options {
    bool has_static = false, exposes = false;
    int phase = 1;
    std::string net, layer, recurrent;  // more fields
    int64_t hidden = 6;
  };

  RecurrentNet(Recurrence::Kind kind, Device* device, DataType type, Options options,
               int64_t steps = 4, int64_t items = 3)
      : options_(options) {
    formulas.kind = kind;
    formulas.steps = steps;
    formulas.items = items;
    formulas.inputs = 5;
    formulas.hidden = options.hidden;
    formulas.static_inputs = options.has_static ? 2 : 0;
    net = MakeNet(Text(type), device, options.phase);
    FillInputs(net.get(), 5);
    net->BlobByName("cont")->SetData(Cont());
    for (const auto& blob : layer().blobs()) {
      Numbers values = TestNumbers(blob->count(), formulas.blobs.size() + 40);
      for (double& value : values) value *= 0.5;
      blob->SetData(values);
      formulas.blobs.push_back(values);
    }
    h = c = Numbers(items * formulas.hidden, 0);
  }

  LayerBase& layer() { return *net->LayerByName("lstm"); }
  // Sequences that begin at different steps; the first continues what was before.
  Numbers Cont() const {
    Numbers cont(formulas.steps * formulas.items, 1);
    for (int64_t n = 1; n < formulas.items; ++n) {
      cont[(n % formulas.steps) * formulas.items + n] = 0;
    }
    return cont;
  }
  // By the formulas; moves h and c on.
  Numbers Expected() {
    if (options_.exposes) {
      h = Values(*net, "h0");
      if (formulas.kind == Recurrence::kLSTM) c = Values(*net, "c0");
    }
    return formulas.Run(Values(*net, "x"), Values(*net, "cont"),
                        options_.has_static ? Values(*net, "fixed") : Numbers(), &h, &c);
  }

  std::unique_ptr<Net> net;
  Recurrence formulas;
  Numbers h, c;

 private:
  std::string Text(DataType type) const {
    const Recurrence& f = formulas;
    const bool has_c = f.kind == Recurrence::kLSTM;
    std::string text =
        options_.net +
        " data_type: " + DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)) + " " +
        InputText("x", {f.steps, f.items, f.inputs}) + InputText("cont", {f.steps, f.items});
    std::string bottoms = "bottom: 'x' bottom: 'cont' ", tops = "top: 'y' ";
    const auto input = [&](const std::string& name, const Shape& shape) {
      text += InputText(name, shape);
      bottoms += "bottom: '" + name + "' ";
    };
    if (options_.has_static) input("fixed", {f.items, f.static_inputs});
    if (options_.exposes) {
      input("h0", {1, f.items, f.hidden});
      if (has_c) input("c0", {1, f.items, f.hidden});
      tops += has_c ? "top: 'hT' top: 'cT' " : "top: 'hT' ";
    }
    text += InputText("target", {f.steps, f.items, f.hidden});
    return text + "layer { name: 'lstm' type: '" + TypeName(f.kind) + "' " + bottoms + tops +
           options_.layer + " recurrent_param { num_output: " + std::to_string(f.hidden) +
           (options_.exposes ? " expose_hidden: true " : " ") + options_.recurrent +
           " weight_filler { type: 'uniform' min: -0.3 max: 0.3 } } } "
           "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 'target' top: 'loss' }";
  }

  Options options_;
};

}  // namespace caffe
