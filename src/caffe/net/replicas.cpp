#include "caffe/net/replicas.hpp"

#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/net/run/joint_iteration.hpp"
#include "rooms.hpp"

namespace caffe {

Replicas::Replicas(std::vector<Net*> nets)
    : nets_(std::move(nets)), joint_(std::make_unique<JointIteration>()) {}

Replicas::~Replicas() = default;

std::vector<LayerBase*> Replicas::Layers(const Net& net) {
  std::vector<LayerBase*> layers;
  for (const Node& node : net.wiring_.nodes) layers.push_back(node.layer.get());
  return layers;
}

void Replicas::Iterate(IterationEnd end) {
  std::vector<Passes*> passes;
  for (Net* net : nets_) {
    net->FollowDefaultDevice();
    CAFFE_CHECK(net->device() == nets_[0]->device(), NetLabel(net->name()), " is on ",
                net->device()->info().id,
                ", but replicas that one thread trains are on one device, ",
                nets_[0]->device()->info().id);
    passes.push_back(&*net->rooms_->passes);
    const size_t own = passes.back()->tail().reductions.size();
    const size_t first = passes[0]->tail().reductions.size();
    CAFFE_CHECK(own == first, NetLabel(net->name()), ", replica ", passes.size() - 1, ", has ", own,
                " reductions of gradients, replica 0 has ", first,
                "; give each solver a communicator of one group, with the same bucket_bytes");
  }
  joint_->Iterate(passes, end);
}

}  // namespace caffe
