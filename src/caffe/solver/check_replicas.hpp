#pragma once

#include "caffe/net/net.hpp"
#include "caffe/parallel/communicator.hpp"

namespace caffe {

class SolverParameter;

// Throws if the net and its solver are not replicas of those of rank 0: the learnable parameters by
// layer, name, shape and type; the settings of the solver and of the layers, but for devices, paths
// and names of files; the seeds; and the number of records of data layers.
void CheckReplicas(const Net& net, const SolverParameter& solver, Communicator* communicator);

}  // namespace caffe
