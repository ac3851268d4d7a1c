#include "caffe/core/error.hpp"
#include "caffe/parallel/mpi/mpi_group.hpp"

namespace caffe {

std::unique_ptr<HostGroup> JoinMpi() {
  CAFFE_THROW(
      "this process is one of several that an MPI launcher started, but Cortado was built without "
      "MPI: install libopenmpi-dev (or MPICH's headers) and build again, or start one process");
}

}  // namespace caffe
