#pragma once

#include <memory>

#include "caffe/parallel/host_group.hpp"

namespace caffe {

// The group of all processes of an MPI job; this process joins it. MPI ends when the group is
// destroyed, so this can be called once. Throws if Cortado was built without MPI.
std::unique_ptr<HostGroup> JoinMpi();

}  // namespace caffe
