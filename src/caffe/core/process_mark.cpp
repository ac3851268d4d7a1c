#include "caffe/core/process_mark.hpp"

#include <omp.h>
#include <pthread.h>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

// fork() does not copy OpenMP's threads, and in the child GNU's library would wait for them for
// ever. So the forking thread's pool is ended before fork(); parent and child start new pools.
void EndThreadPool() { omp_pause_resource_all(omp_pause_hard); }

}  // namespace

constinit std::atomic<int> ProcessMark::forks_{0};
const bool ProcessMark::registered_ = ProcessMark::Register();

void ProcessMark::CountFork() noexcept { ++forks_; }

bool ProcessMark::Register() {
  return pthread_atfork(&EndThreadPool, nullptr, &ProcessMark::CountFork) == 0;
}

void ProcessMark::Refuse(const std::string& what) {
  CAFFE_THROW(what,
              " was opened before this process was forked, and its driver does not work here: use "
              "the CPU in the child (set_device('cpu')), or start it with "
              "multiprocessing.get_context('spawn'), where every device works");
}

}  // namespace caffe
