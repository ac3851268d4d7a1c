#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caffe/parallel/communicator.hpp"

namespace caffe {

// Calls `work` once for each device, in threads of their own; rank 0 in the calling thread. The
// device of a rank is its thread's default device, with a stream of its own. Ranks on the CPU share
// the threads of OpenMP out. Different CUDA devices sum through NCCL where that is installed, all
// others through the host. Ranks other than 0 log warnings alone. If one of them throws, the others
// end, and its error is thrown, with the rank.
void RunRanks(const std::vector<Device*>& devices,
              const std::function<void(Communicator*, Device*)>& work);

// The rank of this process among those that a launcher of MPI (mpirun, srun) started; {0, 1, 0}
// for a process that they did not start.
struct JobRank {
  int rank = 0, ranks = 1;
  int local_rank = 0;  // on its machine
};
JobRank RankInJob();

// Calls `work` for this process of an MPI job, which has one device. MPI works once in a process,
// from here to the end of the call. If `work` throws, all processes of the job end.
void RunInJob(Device* device, const std::function<void(Communicator*, Device*)>& work);

// The communicator of one of `size` processes of this machine that give one name, for scripts that
// start their processes themselves. Waits for all of them.
std::unique_ptr<Communicator> JoinProcesses(const std::string& name, int size, int rank,
                                            Device* device);

// The seed of rank 0, which is a new one if it has none (a negative one).
int64_t JointSeed(Communicator* communicator, int64_t seed);

// A communicator for one of `names.size()` threads of this process, for each of them: `names`
// describes the ranks in errors. Arrays are summed through the host.
std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(
    const std::vector<std::string>& names);

}  // namespace caffe
