#pragma once

#include <memory>
#include <vector>

#include "caffe/net/training_tail.hpp"

namespace caffe {

class JointIteration;
class LayerBase;
class Net;

// Nets of one device that one thread trains together: the actions of an iteration of all of them
// are one list, in turns, and one graph where the device records work.
class Replicas {
 public:
  // The nets must outlive this object.
  explicit Replicas(std::vector<Net*> nets);
  ~Replicas();
  const std::vector<Net*>& nets() const { return nets_; }
  // Net::Iterate of each. Throws if they are on different devices.
  void Iterate(IterationEnd end);
  // All layers of a net, also those inside of composite layers.
  static std::vector<LayerBase*> Layers(const Net& net);

 private:
  const std::vector<Net*> nets_;
  const std::unique_ptr<JointIteration> joint_;
};

}  // namespace caffe
