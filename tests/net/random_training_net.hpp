#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "net/net_support.hpp"

namespace caffe {

// A random net for training: chains that branch and join, layers in place, views, layers of several
// tops, mixtures of experts, recurrent layers, and losses. The number of the net decides all of it.
// Layers that need an Input of their own (labels, goals) have it right before them, so that Inputs
// stand between other layers.
class RandomTrainingNet {
 public:
  explicit RandomTrainingNet(uint64_t seed) : random_(seed) {
    Input("data", {kItems, 4, 6, 5});
    blobs_.push_back({"data", 4, 6, 5});
    const int layers = 4 + Draw(12);
    for (int i = 0; i < layers; ++i) AddLayer();
    if (Draw(4) == 0) AddRecurrent();
    AddLosses();
  }

  const std::string& text() const { return text_; }

 private:
  // A blob of kItems items; h is 0 if an item is a row of c elements.
  struct BlobOf {
    std::string name;
    int c, h, w;
    int readers = 0;
    bool image() const { return h > 0; }
  };
  static constexpr int kItems = 4;

  int Draw(int count) { return static_cast<int>(random_() % count); }
  std::string Name(const char* type) { return Concat(type, ++count_); }
  void Input(const std::string& name, const Shape& shape) { text_ += InputText(name, shape); }

  void Layer(const std::string& type, const std::string& name,
             const std::vector<std::string>& bottoms, const std::vector<std::string>& tops,
             const std::string& more = "") {
    text_ += Concat("layer { name: '", name, "' type: '", type, "'");
    for (const std::string& bottom : bottoms) text_ += " bottom: '" + bottom + "'";
    for (const std::string& top : tops) text_ += " top: '" + top + "'";
    text_ += " " + more + " } ";
  }

  // The layers read recent blobs, most of the time the last one.
  size_t Pick() {
    const int count = static_cast<int>(blobs_.size());
    return Draw(3) > 0 ? count - 1 : count - 1 - Draw(std::min(count, 4));
  }
  // Another blob of the same shape; its index, or that of `from` itself.
  size_t Like(size_t from, bool channels) {
    std::vector<size_t> found;
    for (size_t i = 0; i < blobs_.size(); ++i) {
      const BlobOf &a = blobs_[i], &b = blobs_[from];
      if (a.h == b.h && a.w == b.w && (a.c == b.c || !channels)) found.push_back(i);
    }
    return found[Draw(static_cast<int>(found.size()))];
  }
  // The names of `blobs`, which are read once more.
  std::vector<std::string> Read(const std::vector<size_t>& indices) {
    std::vector<std::string> names;
    for (const size_t i : indices) {
      ++blobs_[i].readers;
      names.push_back(blobs_[i].name);
    }
    return names;
  }

  // A layer of one bottom, whose top has the shape of the bottom; in place in half of the cases.
  void Same(const std::string& type, size_t from, const std::string& more = "",
            bool in_place = true) {
    const std::string name = Name(type.c_str());
    const BlobOf bottom = blobs_[from];
    const std::vector<std::string> bottoms = Read({from});
    if (in_place && bottom.name != "data" && Draw(2) == 0) {
      Layer(type, name, bottoms, bottoms, more);
      --blobs_[from].readers;
      return;
    }
    Layer(type, name, bottoms, {name}, more);
    blobs_.push_back({name, bottom.c, bottom.h, bottom.w});
  }

  void Add(const std::string& type, const std::vector<size_t>& from, int c, int h, int w,
           const std::string& more) {
    const std::string name = Name(type.c_str());
    Layer(type, name, Read(from), {name}, more);
    blobs_.push_back({name, c, h, w});
  }

  static std::string Filler() { return "weight_filler { type: 'uniform' min: -0.5 max: 0.5 } "; }

  void AddInnerProduct(size_t from, int outputs) {
    Add("InnerProduct", {from}, outputs, 0, 0,
        Concat("inner_product_param { num_output: ", outputs, " ", Filler(), "}"));
  }

  void AddConvolution(size_t from) {
    const int outputs = 2 + 2 * Draw(3), kernel = 1 + 2 * Draw(2);
    Add(Draw(5) == 0 ? "Deconvolution" : "Convolution", {from}, outputs, blobs_[from].h,
        blobs_[from].w,
        Concat("convolution_param { num_output: ", outputs, " kernel_size: ", kernel,
               " pad: ", kernel / 2, " bias_term: ", Draw(2), " ", Filler(), "}"));
  }

  void AddPooling(size_t from) {
    const BlobOf& b = blobs_[from];
    const char* const pool = Draw(2) ? "MAX" : Draw(3) ? "AVE" : "STOCHASTIC";
    const int form = Draw(3);
    if (form == 0) {
      Add("Pooling", {from}, b.c, b.h, b.w,
          Concat("pooling_param { pool: MAX kernel_size: 3 pad: 1 }"));
    } else if (form == 1) {
      Add("Pooling", {from}, b.c, (b.h + 1) / 2, (b.w + 1) / 2,
          Concat("pooling_param { pool: ", pool, " kernel_size: 2 stride: 2 }"));
    } else {
      Add("Pooling", {from}, b.c, 1, 1, "pooling_param { pool: AVE global_pooling: true }");
    }
  }

  void AddSlice(size_t from) {
    const BlobOf b = blobs_[from];
    if (b.c < 2) return;
    const std::string name = Name("slice");
    const int at = 1 + Draw(b.c - 1);
    Layer("Slice", name, Read({from}), {name + "a", name + "b"},
          Concat("slice_param { axis: 1 slice_point: ", at, " }"));
    blobs_.push_back({name + "a", at, b.h, b.w});
    blobs_.push_back({name + "b", b.c - at, b.h, b.w});
  }

  void AddView(size_t from) {
    const BlobOf b = blobs_[from];
    const int elements = b.image() ? b.c * b.h * b.w : b.c;
    switch (Draw(4)) {
      case 0: return Add("Flatten", {from}, elements, 0, 0, "");
      case 1:
        return Add("Reshape", {from}, elements, 0, 0, "reshape_param { shape { dim: 0 dim: -1 } }");
      case 2: return Add("Concat", {from}, b.c, b.h, b.w, "");  // of one bottom
      default: return Add("Split", {from}, b.c, b.h, b.w, "");
    }
  }

  void AddMixture(size_t from) {
    const std::string name = Name("moe");
    const int experts = 2 + Draw(3), select = 1 + Draw(experts), outputs = 2 + Draw(4);
    const Shape input{1, 1};
    const std::string gate = InputText("x", input) +
                             "layer { name: 's' type: 'InnerProduct' bottom: 'x' top: 's' "
                             "inner_product_param { num_output: " +
                             std::to_string(experts) + " " + Filler() +
                             "} } layer { name: 'p' type: 'Softmax' bottom: 's' top: 'p' } ";
    std::string expert = InputText("x", input), last = "x";
    if (Draw(2)) {
      expert += InnerProductText("hidden", "x", 3) + ReluText("relu", "hidden");
      last = "hidden";
    }
    expert += InnerProductText("out", last, outputs);
    std::string more =
        Concat("moe_param { select_experts: ", select, " expert_instances: ", experts,
               " full_forward: ", Draw(3) == 0, " normalize_weights: ", Draw(3) > 0);
    if (Draw(3) == 0) more += " usage_loss_weight: 0.7";
    if (Draw(3) == 0) more += " load_balance_loss_weight: 0.5";
    if (Draw(3) == 0) more += " z_loss_weight: 0.1";
    if (Draw(3) == 0) more += " balance_rate: 0.05";
    if (Draw(3) == 0) more += " capacity_factor: 0.8";
    more += " gating_net { " + gate + "} expert_net { " + expert + "} } ";
    const bool usage = Draw(2);
    std::vector<std::string> tops{name};
    if (usage) tops.insert(tops.end(), {name + "_observed", name + "_expected"});
    Layer("MOE", name, Read({from}), tops, more);
    blobs_.push_back({name, outputs, 0, 0});
    if (usage && Draw(2)) {
      const std::string loss = Name("usage");
      Layer("EuclideanLoss", loss, {tops[1], tops[2]}, {loss}, "loss_weight: 0.6");
    }
  }

  void AddLayer() {
    const size_t from = Pick();
    const BlobOf b = blobs_[from];
    switch (Draw(22)) {
      case 0:
      case 1:
      case 2: return b.image() ? AddConvolution(from) : AddInnerProduct(from, 3 + Draw(4));
      case 3: return AddInnerProduct(from, 3 + Draw(4));
      case 4:
      case 5: return Same("ReLU", from, Draw(2) ? "" : "relu_param { negative_slope: 0.1 }");
      case 6: return Same(Draw(2) ? "ELU" : "TanH", from);
      case 7: return Same(Draw(2) ? "Sigmoid" : "PReLU", from);
      case 8: return Same("Dropout", from);
      case 9: return Same("BatchNorm", from);
      case 10: return Same("Scale", from, "scale_param { bias_term: true }");
      case 11: return Same("Power", from, "power_param { power: 2 scale: 0.5 shift: 0.1 }");
      case 12: return b.image() ? Same("LRN", from, "", false) : Same("Softmax", from, "", false);
      case 13:
      case 14: return b.image() ? AddPooling(from) : AddMixture(from);
      case 15:
      case 16: return AddView(from);
      case 17: return AddSlice(from);
      case 18: {
        const size_t other = Like(from, true);
        const char* const kinds[] = {"SUM", "PROD", "MAX"};
        return Add("Eltwise", {from, other}, b.c, b.h, b.w,
                   Concat("eltwise_param { operation: ", kinds[Draw(3)], " }"));
      }
      case 19: {
        const size_t other = Like(from, false);
        return Add("Concat", {from, other}, b.c + blobs_[other].c, b.h, b.w, "");
      }
      case 20: return Same("Noise", from, "noise_param { additive: true sigma: 0.2 }", false);
      default: return AddMixture(from);
    }
  }

  void AddRecurrent() {
    const int steps = 3, streams = 2, width = 3;
    const char* const kinds[] = {"LSTM", "RNN", "GRU"};
    const std::string name = Name("recurrent"), sequence = name + "_x", cont = name + "_cont";
    Input(sequence, {steps, streams, width});
    Input(cont, {steps, streams});
    std::string bottom = sequence;
    if (Draw(2)) {
      bottom = name + "_in";
      Layer("InnerProduct", bottom, {sequence}, {bottom},
            Concat("inner_product_param { axis: 2 num_output: ", width, " ", Filler(), "}"));
    }
    Layer(kinds[Draw(3)], name, {bottom, cont}, {name},
          Concat("recurrent_param { num_output: 4 ", Filler(), "}"));
    if (Draw(2)) Layer("TanH", name + "_tanh", {name}, {name});
    const std::string goal = name + "_goal", loss = name + "_loss";
    Input(goal, {steps, streams, 4});
    Layer("EuclideanLoss", loss, {name, goal}, {loss});
  }

  // Losses of the last blob and of most others that no layer reads.
  void AddLosses() {
    for (size_t i = blobs_.size(); i-- > 0;) {
      const bool last = i + 1 == blobs_.size();
      if (!last && (blobs_[i].readers > 0 || Draw(4) == 0)) continue;
      AddLoss(i);
    }
  }

  void AddLoss(size_t from) {
    const std::string name = Name("loss"), ip = name + "_ip";
    const std::string weight = Concat("loss_weight: ", 0.25 * (1 + Draw(4)));
    Layer("InnerProduct", ip, Read({from}), {ip},
          Concat("inner_product_param { num_output: 3 ", Filler(), "}"));
    switch (Draw(3)) {
      case 0:
        Input(name + "_goal", {kItems, 3});
        return Layer("EuclideanLoss", name, {ip, name + "_goal"}, {name}, weight);
      case 1:
        return Layer("Reduction", name, {ip}, {name},
                     weight + " reduction_param { operation: SUMSQ }");
      default:
        Input(name + "_label", {kItems});
        return Layer("SoftmaxWithLoss", name, {ip, name + "_label"}, {name}, weight);
    }
  }

  std::mt19937_64 random_;
  std::string text_;
  std::vector<BlobOf> blobs_;
  int count_ = 0;
};

// Fills the inputs of such a net: labels get classes, and _cont 0 or 1.
inline void FillTrainingNet(Net* net, uint64_t seed) {
  for (BlobBase* blob : net->input_blobs()) {
    std::vector<double> values = TestNumbers(blob->count(), seed++);
    const auto ends = [&](const std::string& tail) {
      const std::string& name = blob->name();
      return name.size() >= tail.size() && name.substr(name.size() - tail.size()) == tail;
    };
    for (size_t i = 0; i < values.size(); ++i) {
      if (ends("_label")) values[i] = static_cast<double>(i % 3);
      if (ends("_cont")) values[i] = values[i] > -0.5;
    }
    blob->SetData(values);
  }
}

}  // namespace caffe
