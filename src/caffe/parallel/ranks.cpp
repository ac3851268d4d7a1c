#include "caffe/parallel/ranks.hpp"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "caffe/core/environment_number.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/log_settings.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/parallel/host_communicator.hpp"
#include "caffe/parallel/mpi/mpi_group.hpp"
#include "caffe/parallel/nccl_communicator.hpp"

namespace caffe {
namespace {

bool AllDifferentCuda(const std::vector<std::string>& devices) {
  const bool cuda = std::all_of(devices.begin(), devices.end(),
                                [](const std::string& one) { return one.find("cuda") == 0; });
  return cuda && std::set<std::string>(devices.begin(), devices.end()).size() == devices.size();
}

// The same answer on all ranks.
bool AllFindNccl(HostCommunicator* host, const std::string& device_name) {
  std::string why;
  const std::string found = nccl::Find(&why) ? "" : why;
  if (!AllDifferentCuda(host->AllGather(device_name))) return false;
  for (const std::string& one : host->AllGather(found)) {
    if (one.empty()) continue;
    if (host->rank() == 0) {
      log::Warning(Concat("gradients are summed through the host, because a rank has no NCCL (",
                          one, "); install libnccl.so.2, or the Python package nvidia-nccl-cu12"));
    }
    return false;
  }
  return true;
}

// `device_name`: equal for equal devices of all ranks.
void Run(HostCommunicator* host, Device* device, const std::string& device_name,
         const std::function<void(Communicator*, Device*)>& work) {
  try {
    std::unique_ptr<NcclCommunicator> nccl;
    if (AllFindNccl(host, device_name)) nccl = std::make_unique<NcclCommunicator>(host, device);
    work(nccl ? static_cast<Communicator*>(nccl.get()) : host, device);
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    host->Abort(error.what());
    throw;
  } catch (...) {
    host->Abort("it was interrupted");
    throw;
  }
}

// The OpenMP threads of the calling thread, until the destructor.
class OwnThreads {
 public:
  explicit OwnThreads(int threads) : before_(omp_get_max_threads()) {
    if (threads > 0) omp_set_num_threads(threads);
  }
  ~OwnThreads() { omp_set_num_threads(before_); }
  OwnThreads(const OwnThreads&) = delete;
  OwnThreads& operator=(const OwnThreads&) = delete;

 private:
  const int before_;
};

// The same for the same GPU in all processes; "host" for other devices.
std::string CudaName(const Device& device, int local_rank) {
  if (device.backend() != "cuda") return "host";
  const std::string& id = device.info().unique_id;
  return "cuda " + (id.empty() ? std::to_string(local_rank) : id);
}

int Environment(const char* variable, int otherwise) {
  return static_cast<int>(NumberOfEnvironment(variable, 0, 1 << 20, "ranks").value_or(otherwise));
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(
    const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (auto& group : MakeThreadGroups(names)) {
    communicators.push_back(std::make_unique<HostCommunicator>(std::move(group)));
  }
  return communicators;
}

void RunRanks(const std::vector<Device*>& devices,
              const std::function<void(Communicator*, Device*)>& work) {
  const int ranks = static_cast<int>(devices.size());
  CAFFE_CHECK(ranks > 0, "there is no device to train on");
  std::vector<std::string> names;
  int on_cpu = 0;
  for (int r = 0; r < ranks; ++r) {
    names.push_back(Concat("rank ", r, " of ", ranks, " (", devices[r]->info().id, ")"));
    on_cpu += devices[r]->info().is_cpu_type;
  }
  const int threads = std::max(1, omp_get_max_threads() / std::max(1, on_cpu));
  std::vector<std::unique_ptr<HostGroup>> groups = MakeThreadGroups(names);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  const auto run = [&](int r) {
    Device* const device = devices[r];
    try {
      const log::RankScope log_scope(r);
      const OwnThreads own(device->info().is_cpu_type ? threads : 0);
      // Destroyed after the stream's last work, which `work` waits for when it destroys its nets.
      const std::unique_ptr<Stream> stream = r > 0 ? device->CreateStream() : nullptr;
      const StreamScope scope(device, stream.get());
      Runtime::Get().SetDefaultDevice(device);
      HostCommunicator host(std::move(groups[r]));
      Run(&host, device, device->info().id, work);
    } catch (...) {
      errors[r] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int r = 1; r < ranks; ++r) others.emplace_back(run, r);
  run(0);
  for (std::thread& other : others) other.join();
  std::exception_ptr consequence;
  for (int r = 0; r < ranks; ++r) {
    if (!errors[r]) continue;
    try {
      std::rethrow_exception(errors[r]);
    } catch (const RankFailure&) {
      if (!consequence) consequence = errors[r];
    } catch (const Error&) {
      if (ranks == 1) throw;
      RethrowIn(names[r]);
    }
  }
  if (consequence) std::rethrow_exception(consequence);
}

JobRank RankInJob() {
  // OpenMPI, then launchers of PMI (MPICH, srun --mpi=pmi2 and pmix).
  if (std::getenv("OMPI_COMM_WORLD_SIZE")) {
    return {Environment("OMPI_COMM_WORLD_RANK", 0), Environment("OMPI_COMM_WORLD_SIZE", 1),
            Environment("OMPI_COMM_WORLD_LOCAL_RANK", 0)};
  }
  if (std::getenv("PMI_RANK") || std::getenv("PMIX_RANK")) {
    const int rank = Environment("PMI_RANK", Environment("PMIX_RANK", 0));
    const int ranks = Environment("PMI_SIZE", Environment("SLURM_STEP_NUM_TASKS", 1));
    return {rank, ranks, Environment("MPI_LOCALRANKID", Environment("SLURM_LOCALID", rank))};
  }
  return {};
}

int64_t JointSeed(Communicator* communicator, int64_t seed) {
  std::random_device device;
  const int64_t own = seed >= 0 ? seed : static_cast<int64_t>(device() & INT32_MAX);
  return std::stoll(communicator->Broadcast(Concat(own)));
}

std::unique_ptr<Communicator> JoinProcesses(const std::string& name, int size, int rank,
                                            Device* device) {
  auto host = std::make_unique<HostCommunicator>(JoinProcessGroup(name, size, rank));
  HostCommunicator* const borrowed = host.get();
  if (!AllFindNccl(borrowed, CudaName(*device, rank))) return host;
  return std::make_unique<NcclCommunicator>(borrowed, device, std::move(host));
}

void RunInJob(Device* device, const std::function<void(Communicator*, Device*)>& work) {
  HostCommunicator host(JoinMpi());
  const log::RankScope log_scope(host.rank());
  const int local_rank = RankInJob().local_rank;
  Runtime::Get().SetDefaultDevice(device);
  Run(&host, device, CudaName(*device, local_rank), work);
}

}  // namespace caffe
