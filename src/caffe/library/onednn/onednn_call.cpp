#include "caffe/library/onednn/onednn_call.hpp"

#include <pthread.h>

#include <cstdlib>

#include "caffe/core/error.hpp"
#include "caffe/library/fallback.hpp"

namespace caffe::onednn {
namespace {

std::mutex& Mutex() {
  static auto* const mutex = [] {
    pthread_atfork([] { Mutex().lock(); }, [] { Mutex().unlock(); }, [] { Mutex().unlock(); });
    return new std::mutex;
  }();
  return *mutex;
}

}  // namespace

const dnnl::engine& Engine() {
  static const auto* const engine = [] {
    // By default oneDNN keeps the last 1024 primitives, of some 64 KiB each. Operators hold those
    // that they run. The others serve only nets that get an earlier shape again.
    if (!std::getenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY")) dnnl::set_primitive_cache_capacity(64);
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *engine;
}

std::unique_lock<std::mutex> Making() { return std::unique_lock(Mutex()); }

Call::Call(const dnnl::primitive& primitive, std::initializer_list<Operand> operands)
    : primitive_(primitive), stream_(Engine()) {
  for (const Operand& operand : operands) {
    if (operand.desc.get_size() == 0) continue;
    bound_.push_back(
        {operand.argument, dnnl::memory(operand.desc, Engine(), DNNL_MEMORY_NONE), nullptr});
    arguments_.push_back({operand.argument, bound_.back().memory.get()});
  }
}

void Call::Run(std::initializer_list<Pointer> pointers) {
  for (const Pointer& pointer : pointers) {
    for (Bound& bound : bound_) {
      if (bound.argument != pointer.argument || bound.address == pointer.address) continue;
      bound.address = const_cast<void*>(pointer.address);
      bound.memory.set_data_handle(bound.address);
    }
  }
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) {
    throw LibraryRefusal(Concat("dnnl_primitive_execute failed with status ", status), true);
  }
}

}  // namespace caffe::onednn
