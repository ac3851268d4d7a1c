#pragma once

#include "caffe/net/net.hpp"
#include "caffe/parallel/communicator.hpp"

namespace caffe {

// Throws if the learnable parameters of the net are not those of rank 0's net: by layer, name,
// shape and type.
void CheckReplicas(const Net& net, Communicator* communicator);

}  // namespace caffe
