#pragma once

#include <map>
#include <string>
#include <vector>

#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/sub_net.hpp"
#include "net/net_support.hpp"

namespace caffe {

// The SubNet of a layer of type TestBlock.
struct BlockText {
  std::string net;
  std::vector<std::string> inputs, outputs;
  std::vector<SubNet::Parameter> parameters{};
};

// By the names of the layers in their own net.
inline std::map<std::string, BlockText>& BlockTexts() {
  static std::map<std::string, BlockText> texts;
  return texts;
}

// A composite layer whose net is BlockTexts()[its name].
class TestBlock final : public CompositeLayer {
 public:
  using CompositeLayer::CompositeLayer;
  SubNet Expand(const BlobVec&, int) override {
    const BlockText& text = BlockTexts().at(name().substr(name().rfind('/') + 1));
    SubNet sub;
    *sub.net = ParseNet(text.net);
    sub.inputs = text.inputs;
    sub.outputs = text.outputs;
    sub.parameters = text.parameters;
    return sub;
  }
  void Connect(const std::vector<std::shared_ptr<LayerBase>>& nested) override {
    for (const auto& layer : nested) names.push_back(layer->name());
  }
  std::vector<std::string> names;
};

// TestBlock: its second bottom has no gradient.
inline void RegisterTestBlock() {
  static bool registered = false;
  if (registered) return;
  registered = true;
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.no_gradient_bottoms = {1};
  traits.types = BuiltInTypes();
  LayerRegistry::Get().AddUntyped("TestBlock", traits,
                                  [](const LayerParameter& parameter, const LayerContext& context) {
                                    return std::make_shared<TestBlock>(parameter, context);
                                  });
}

inline std::string BlockLayer(const std::string& name, const std::vector<std::string>& bottoms,
                              const std::vector<std::string>& tops, const std::string& more = "") {
  RegisterTestBlock();
  std::string text = "layer { name: '" + name + "' type: 'TestBlock'";
  for (const std::string& bottom : bottoms) text += " bottom: '" + bottom + "'";
  for (const std::string& top : tops) text += " top: '" + top + "'";
  return text + " " + more + " } ";
}

}  // namespace caffe
