#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/sub_net.hpp"
#include "nested_layers.hpp"

namespace caffe {

class Device;

// Makes the layers that compute a MOE layer:
//   gating net -> MOERoute -> MOEGather -> one expert net with grouped layers -> MOECombine
// Each layer of the expert net then computes the rows of all experts. If that is not possible, or
// with full_forward, every expert computes all items:
//   gating net -> MOERoute;  expert nets -> Concat -> MOECombine
class MOENet {
 public:
  // `real` is the type of the gate.
  MOENet(const LayerParameter& layer, DataType real, Device* device);
  SubNet Build(int bottoms, int tops);

 private:
  std::string Where() const;
  std::vector<std::string> InputsOf(MOEParameter::BottomMapping net, int bottoms) const;
  void ReadExperts(const std::vector<std::string>& inputs);
  // Why the layers of the experts cannot compute the rows of all experts; empty if they can.
  std::string WhyAll() const;
  // The same if the layers could on the CPU.
  std::string WhyAllOnDevice() const;
  LayerParameter* Add(const std::string& name, const std::string& type,
                      const std::vector<std::string>& bottoms,
                      const std::vector<std::string>& tops);
  void AddParameters(const LayerParameter& layer);
  std::string AddGate(const NestedLayers& gating);
  void AddLosses(const NestedLayers& gating, const std::string& gate);
  void AddAllExperts();
  void AddGroupedExperts(const std::vector<std::string>& inputs);
  void AddOutputs(const NestedLayers& gating, int tops);

  const LayerParameter& layer_;
  const MOEParameter& parameter_;
  DataType real_;
  Device* device_;
  int64_t experts_ = 0;
  bool all_ = false;
  std::vector<std::shared_ptr<const NestedLayers>> nets_;  // of each expert; instances share one
  SubNet sub_;
};

}  // namespace caffe
