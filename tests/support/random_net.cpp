#include "support/random_net.hpp"

#include <algorithm>
#include <set>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

constexpr char kWeights[] =
    "weight_filler { type: 'uniform' min: -0.5 max: 0.5 } "
    "bias_filler { type: 'uniform' min: -0.3 max: 0.3 } ";

// Draws layer after layer, and knows the shape of each blob.
class Drawer {
 public:
  Drawer(Draws* draws, const RandomNetOptions& options) : draws_(*draws), options_(options) {
    net_.head = "data_type: " + options.type + " ";
  }

  RandomNet Draw() {
    AddInput("data", {2, 3, 4, 5});
    if (draws_.Chance(40)) AddInput("other", {2, 3, 4, 5});
    const int count = 3 + draws_.Below(options_.train ? 8 : 11);
    while (static_cast<int>(net_.layers.size()) < count) AddAny();
    if (options_.train) AddLoss();
    if (options_.marks) Mark();
    return std::move(net_);
  }

 private:
  void AddInput(const std::string& name, const Shape& shape) {
    std::string text = "input_param { shape {";
    for (int64_t extent : shape) text += Concat(" dim: ", extent);
    Add("Input", text + " } }", {}, {name}, {shape}, name);
    net_.inputs[name] = net_.layers.back().written[0];
  }

  void Add(const std::string& type, const std::string& parameters,
           const std::vector<std::string>& bottoms, const std::vector<std::string>& tops,
           const std::vector<Shape>& shapes, std::string name = "") {
    RandomNet::Layer layer;
    if (name.empty()) name = Concat("layer", net_.layers.size());
    layer.name = name;
    layer.type = type;
    layer.parameters = parameters;
    layer.bottoms = bottoms;
    layer.tops = tops;
    for (const std::string& bottom : bottoms) layer.read.push_back(now_.at(bottom));
    for (size_t t = 0; t < tops.size(); ++t) {
      layer.written.push_back(Concat(tops[t], ".", net_.layers.size()));
      now_[tops[t]] = layer.written.back();
      shapes_[tops[t]] = shapes[t];
    }
    net_.layers.push_back(std::move(layer));
  }

  std::string Fresh() { return Concat("b", blobs_++); }

  // Later blobs are more likely, so that nets are deep.
  std::string AnyBlob(bool image = true) {
    std::vector<std::string> names;
    for (const auto& [name, shape] : shapes_) {
      if (!masks_.count(name) && (!image || shape.size() == 4)) names.push_back(name);
    }
    std::sort(names.begin(), names.end(),
              [&](const std::string& a, const std::string& b) { return Age(a) < Age(b); });
    const int size = static_cast<int>(names.size());
    const int drawn = std::max(draws_.Below(size), draws_.Below(size));
    return names[draws_.Chance(25) ? draws_.Below(size) : drawn];
  }
  size_t Age(const std::string& name) const {
    const std::string& version = now_.at(name);
    return std::stoul(version.substr(version.rfind('.') + 1));
  }

  void AddElementwise() {
    struct Kind {
      const char* type;
      const char* parameters;
    };
    static const std::vector<Kind> kinds{
        {"ReLU", ""},
        {"ReLU", ""},
        {"ReLU", "relu_param { negative_slope: 0.3 }"},
        {"PReLU", "prelu_param { filler { type: 'uniform' min: 0.1 max: 0.6 } }"},
        {"Sigmoid", ""},
        {"TanH", ""},
        {"AbsVal", ""},
        {"ELU", "elu_param { alpha: 0.5 }"},
        {"Power", "power_param { scale: 0.8 shift: 0.3 }"},
        {"Power", "power_param { power: 2 scale: 0.5 shift: 0.5 }"},
        {"BatchNorm", ""},
        {"Scale",
         "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } bias_filler { "
         "type: 'uniform' min: -0.5 max: 0.5 } }"},
        {"Bias", "bias_param { filler { type: 'uniform' min: -0.5 max: 0.5 } }"},
        {"Dropout", ""}};
    const Kind& kind = draws_.Pick(kinds);
    if (kind.type == std::string("Dropout") && options_.train) return;
    const std::string bottom = AnyBlob(false);
    const std::string top = draws_.Chance(60) ? bottom : Fresh();
    Add(kind.type, kind.parameters, {bottom}, {top}, {shapes_.at(bottom)});
  }

  void AddConvolution() {
    const std::string bottom = AnyBlob();
    Shape shape = shapes_.at(bottom);
    const bool small = draws_.Chance(50);
    shape[1] = 2 + draws_.Below(4);
    Add("Convolution",
        Concat("convolution_param { num_output: ", shape[1], " kernel_size: ", small ? 1 : 3,
               " pad: ", small ? 0 : 1, " ", kWeights, "}"),
        {bottom}, {Fresh()}, {shape});
  }

  void AddPooling() {
    const std::string bottom = AnyBlob();
    Shape shape = shapes_.at(bottom);
    if (shape[2] < 2 || shape[3] < 2) return;
    const int stride = 1 + draws_.Below(2);
    for (int axis : {2, 3}) shape[axis] = (shape[axis] - 2 + stride - 1) / stride + 1;
    const bool maximum = draws_.Chance(70), mask = maximum && draws_.Chance(30);
    std::vector<std::string> tops{Fresh()};
    if (mask) {
      tops.push_back(Fresh());
      masks_.insert(tops[1]);
    }
    Add("Pooling",
        Concat("pooling_param { pool: ", maximum ? "MAX" : "AVE",
               " kernel_size: 2 stride: ", stride, " }"),
        {bottom}, tops, {shape, shape});
    if (mask && draws_.Chance(50)) Add("ReLU", "", {tops[0]}, {tops[0]}, {shape});
  }

  void AddSlice() {
    const std::string bottom = AnyBlob();
    const Shape shape = shapes_.at(bottom);
    if (shape[1] < 2) return;
    const int first = 1 + draws_.Below(static_cast<int>(shape[1]) - 1);
    Shape a = shape, b = shape;
    a[1] = first;
    b[1] = shape[1] - first;
    const std::string top = Fresh();
    Add("Slice", Concat("slice_param { axis: 1 slice_point: ", first, " }"), {bottom},
        {top, Fresh()}, {a, b});
    if (draws_.Chance(60)) Add("ReLU", "", {top}, {top}, {a});
  }

  std::vector<std::string> BlobsLike(const std::string& blob, bool channels) {
    std::vector<std::string> names;
    for (const auto& [name, shape] : shapes_) {
      Shape own = shape, wanted = shapes_.at(blob);
      if (own.size() != wanted.size() || masks_.count(name)) continue;
      if (!channels) own[1] = wanted[1] = 1;
      if (own == wanted) names.push_back(name);
    }
    return names;
  }

  void AddSum() {
    const std::string first = AnyBlob(false);
    const std::vector<std::string> others = BlobsLike(first, true);
    std::vector<std::string> bottoms{first};
    for (int n = 1 + draws_.Below(2); n > 0; --n) bottoms.push_back(draws_.Pick(others));
    static const std::vector<std::string> operations{"SUM", "SUM", "PROD", "MAX"};
    std::string parameters = "eltwise_param { operation: " + draws_.Pick(operations) + " }";
    // The largest of equal values has no certain gradient.
    if (Holds(parameters, "MAX") &&
        std::set<std::string>(bottoms.begin(), bottoms.end()).size() < bottoms.size()) {
      parameters = "eltwise_param { operation: SUM }";
    }
    Add("Eltwise", parameters, bottoms, {Fresh()}, {shapes_.at(first)});
  }
  static bool Holds(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  }

  void AddConcat() {
    const std::string first = AnyBlob();
    std::vector<std::string> bottoms{first};
    const std::vector<std::string> others = BlobsLike(first, false);
    if (draws_.Chance(80)) bottoms.push_back(draws_.Pick(others));
    Shape shape = shapes_.at(first);
    shape[1] = 0;
    for (const std::string& bottom : bottoms) shape[1] += shapes_.at(bottom)[1];
    if (shape[1] > 8) return;
    Add("Concat", "concat_param { axis: 1 }", bottoms, {Fresh()}, {shape});
  }

  void AddView() {
    const std::string bottom = AnyBlob(false);
    Shape shape = shapes_.at(bottom);
    switch (draws_.Below(3)) {
      case 0:
        Add("Flatten", "", {bottom}, {Fresh()}, {{shape[0], ShapeCount(shape, 1, -1)}});
        break;
      case 1: Add("Split", "", {bottom}, {Fresh(), Fresh()}, {shape, shape}); break;
      default: {
        if (shape.size() != 4) return;
        Add("Reshape",
            Concat("reshape_param { shape { dim: 0 dim: ", shape[1], " dim: ", shape[3],
                   " dim: ", shape[2], " } }"),
            {bottom}, {Fresh()}, {{shape[0], shape[1], shape[3], shape[2]}});
      }
    }
  }

  void AddOther() {
    switch (draws_.Below(options_.marks ? 5 : 3)) {
      case 0: {
        const std::string bottom = AnyBlob(false);
        Add("InnerProduct", Concat("inner_product_param { num_output: 4 ", kWeights, "}"), {bottom},
            {Fresh()}, {{shapes_.at(bottom)[0], 4}});
        break;
      }
      case 1: {
        const std::string bottom = AnyBlob();
        Add("LRN", "lrn_param { local_size: 3 alpha: 0.5 }", {bottom}, {Fresh()},
            {shapes_.at(bottom)});
        break;
      }
      case 2: {
        const std::string bottom = AnyBlob(false);
        Add("Softmax", "", {bottom}, {Fresh()}, {shapes_.at(bottom)});
        break;
      }
      case 3: {
        const std::string bottom = AnyBlob();
        Shape shape = shapes_.at(bottom);
        const std::string input = Concat(
            "layer { name: 'x' type: 'Input' top: 'x' input_param { shape {"
            " dim: 1 dim: ",
            shape[1], " dim: ", shape[2], " dim: ", shape[3], " } } } ");
        const bool usage = draws_.Chance(40);
        std::vector<std::string> tops{Fresh()};
        if (usage) {
          tops.push_back(Fresh());
          tops.push_back(Fresh());
          masks_.insert(tops[1]);
          masks_.insert(tops[2]);
        }
        shape[1] = 3;
        Add("MOE",
            Concat("moe_param { select_experts: 2 expert_instances: 3 ",
                   usage ? "usage_loss_weight: 0.1 " : "", "gating_net { ", input,
                   "layer { name: 'g' type: 'InnerProduct' bottom: 'x' top: 'g' "
                   "inner_product_param { num_output: 3 ",
                   kWeights,
                   "} } layer { name: 's' type: 'Softmax' bottom: 'g' top: 's' } } expert_net { ",
                   input,
                   "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { "
                   "num_output: 3 kernel_size: 1 ",
                   kWeights, "} } layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' } } }"),
            {bottom}, tops, {shape, {3}, {3}});
        break;
      }
      default: {
        const std::string bottom = AnyBlob(false);
        if (!markers_) {
          markers_ = true;
          AddInput("cont", {2, 1});
          masks_.insert("cont");
        }
        const Shape shape = shapes_.at(bottom);
        const std::string flat = Fresh();
        Add("Reshape",
            Concat("reshape_param { shape { dim: 2 dim: 1 dim: ", ShapeCount(shape, 1, -1), " } }"),
            {bottom}, {flat}, {{2, 1, ShapeCount(shape, 1, -1)}});
        masks_.insert(flat);
        const std::string top = Fresh(), out = Fresh();
        Add("LSTM", Concat("recurrent_param { num_output: 4 ", kWeights, "}"), {flat, "cont"},
            {top}, {{2, 1, 4}});
        masks_.insert(top);
        Add("Reshape", "reshape_param { shape { dim: 2 dim: 4 } }", {top}, {out}, {{2, 4}});
      }
    }
  }

  void AddAny() {
    const int draw = draws_.Below(100);
    if (draw < 36) return AddElementwise();
    if (draw < 54) return AddConvolution();
    if (draw < 62) return AddPooling();
    if (draw < 70) return AddSlice();
    if (draw < 78) return AddSum();
    if (draw < 84) return AddConcat();
    if (draw < 92) return AddView();
    AddOther();
  }

  // The sum of squares of everything that no layer reads, so that all of it has a gradient.
  void AddLoss() {
    std::vector<std::string> ends;
    const std::map<std::string, Shape> all = shapes_;
    for (const auto& [name, shape] : all) {
      if (masks_.count(name)) continue;
      const std::string& version = now_.at(name);
      const bool read =
          std::any_of(net_.layers.begin(), net_.layers.end(), [&](const RandomNet::Layer& layer) {
            return std::find(layer.read.begin(), layer.read.end(), version) != layer.read.end();
          });
      if (read) continue;
      const std::string end = Fresh();
      Add("InnerProduct", Concat("inner_product_param { num_output: 3 ", kWeights, "}"), {name},
          {end}, {{shape[0], 3}});
      ends.push_back(end);
    }
    const std::string sum = Fresh();
    if (ends.size() > 1) Add("Eltwise", "", ends, {sum}, {{2, 3}});
    AddInput("target", {2, 3});
    Add("EuclideanLoss", "", {ends.size() > 1 ? sum : ends[0], "target"}, {"loss"}, {{}});
  }

  void Mark() {
    const bool most = draws_.Chance(30);
    for (RandomNet::Layer& layer : net_.layers) {
      layer.recompute =
          layer.type != "Input" && layer.type != "EuclideanLoss" && draws_.Chance(most ? 85 : 45);
    }
  }

  Draws& draws_;
  const RandomNetOptions options_;
  RandomNet net_;
  std::map<std::string, Shape> shapes_;
  std::map<std::string, std::string> now_;  // the current version of each blob
  std::set<std::string> masks_;             // and other blobs that no further layer reads
  int blobs_ = 0;
  bool markers_ = false;
};

std::string TextOf(const RandomNet& net, bool apart, bool marks) {
  std::string text = net.head;
  for (const RandomNet::Layer& layer : net.layers) {
    text += "layer { name: '" + layer.name + "' type: '" + layer.type + "'";
    for (const std::string& bottom : apart ? layer.read : layer.bottoms) {
      text += " bottom: '" + bottom + "'";
    }
    for (const std::string& top : apart ? layer.written : layer.tops) text += " top: '" + top + "'";
    text += (layer.parameters.empty() ? "" : " ") + layer.parameters;
    text += marks && layer.recompute ? " recompute: true }\n" : " }\n";
  }
  return text;
}

}  // namespace

uint64_t Draws::Next() {
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::string RandomNet::Text(bool marks) const { return TextOf(*this, false, marks); }
std::string RandomNet::ApartText() const {
  return "force_backward: true " + TextOf(*this, true, false);
}

std::map<std::string, std::string> RandomNet::Shown(int end) const {
  std::map<std::string, std::string> shown;
  for (int i = 0; i <= end; ++i) {
    for (size_t t = 0; t < layers[i].tops.size(); ++t)
      shown[layers[i].tops[t]] = layers[i].written[t];
  }
  return shown;
}

RandomNet DrawNet(Draws* draws, const RandomNetOptions& options) {
  return Drawer(draws, options).Draw();
}

}  // namespace caffe
