#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "net/net_support.hpp"

namespace caffe {

// The numbers of a mixture of experts for a test.
struct MoeCase {
  int64_t items = 6;
  int experts = 3, select = 2;
  bool full = false;
  std::string more{};         // fields of moe_param
  std::string expert_type{};  // data_type of the expert net
  int tops = 3;
  bool normalize = true;  // normalize_weights
};

inline std::string MoeGatingText(int experts) {
  return InputText("g", {1, 2, 6, 6}) + InnerProductText("ga_ip1", "g", 5) +
         ReluText("ga_relu", "ga_ip1") + InnerProductText("ga_ip2", "ga_ip1", experts) +
         "layer { name: 'ga_softmax' type: 'Softmax' bottom: 'ga_ip2' top: 'ga_softmax' } ";
}

inline std::string MoeExpertText() {
  return InputText("x", {1, 2, 6, 6}) +
         "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv' convolution_param {"
         " num_output: 4 kernel_size: 3 weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
         " bias_filler { type: 'uniform' min: -0.5 max: 0.5 } } } " +
         ReluText("relu", "conv") +
         "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool' pooling_param {"
         " pool: MAX kernel_size: 2 stride: 2 } } " +
         InnerProductText("ip", "pool", 7);
}

inline std::string MoeLayerText(const MoeCase& c, const std::string& name,
                                const std::string& bottom) {
  std::string text =
      "layer { name: '" + name + "' type: 'MOE' bottom: '" + bottom + "' top: '" + name + "' ";
  if (c.tops > 1) text += "top: '" + name + "_observed' top: '" + name + "_expected' ";
  return text + Concat("moe_param { select_experts: ", c.select, " full_forward: ", c.full,
                       " normalize_weights: ", c.normalize, " expert_instances: ", c.experts, " ",
                       c.more, " gating_net { ", MoeGatingText(c.experts), " } expert_net { ",
                       c.expert_type, " ", MoeExpertText(), " } } } ");
}

inline std::string MoeNetText(const MoeCase& c) {
  return InputText("data", {c.items, 2, 6, 6}) + MoeLayerText(c, "moe", "data");
}

// The output by a loop over items: nets of the gate and of one expert compute one item at a time.
inline std::vector<double> MoeByLoops(const MoeCase& c, const Net& net, Device* device) {
  const auto& blobs = net.LayerByName("moe")->blobs();
  const auto gate = MakeNet(MoeGatingText(c.experts), device);
  const auto expert = MakeNet(MoeExpertText(), device);
  for (int i = 0; i < 4; ++i) gate->params()[i]->SetData(blobs[i]->DataAsDouble());
  const std::vector<double> data = Values(net, "data");
  std::vector<double> y;
  for (int64_t n = 0; n < c.items; ++n) {
    const std::vector<double> item(data.begin() + n * 72, data.begin() + (n + 1) * 72);
    gate->input_blobs()[0]->SetData(item);
    gate->Forward();
    const std::vector<double> p = Values(*gate, "ga_softmax");
    std::vector<int> order(c.experts);
    for (int e = 0; e < c.experts; ++e) order[e] = e;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return p[a] > p[b]; });
    double sum = 0;
    for (int k = 0; k < c.select; ++k) sum += p[order[k]];
    if (!c.normalize) sum = 1;
    std::vector<double> out(7);
    for (int k = 0; k < c.select; ++k) {
      for (int i = 0; i < 4; ++i) {
        expert->params()[i]->SetData(blobs[4 + order[k] * 4 + i]->DataAsDouble());
      }
      expert->input_blobs()[0]->SetData(item);
      expert->Forward();
      const std::vector<double> of_expert = Values(*expert, "ip");
      for (int j = 0; j < 7; ++j) out[j] += p[order[k]] / sum * of_expert[j];
    }
    y.insert(y.end(), out.begin(), out.end());
  }
  return y;
}

}  // namespace caffe
