#pragma once

#include <dnnl.hpp>
#include <initializer_list>
#include <mutex>
#include <vector>

#include "caffe/device/device_ptr.hpp"

namespace caffe::onednn {

const dnnl::engine& Engine();

// Held while primitives are made: `fork()` waits for it. Otherwise a child could inherit a lock of
// oneDNN's cache of primitives that a thread of the parent holds.
std::unique_lock<std::mutex> Making();

// A primitive and the memory objects of its operands. Not thread-safe.
class Call {
 public:
  struct Operand {
    int argument;
    const dnnl::memory::desc& desc;
  };
  Call(const dnnl::primitive& primitive, std::initializer_list<Operand> operands);
  struct Pointer {
    int argument;
    const void* address;
  };
  // Throws LibraryRefusal if oneDNN reports an error.
  void Run(std::initializer_list<Pointer> pointers);

 private:
  struct Bound {
    int argument;
    dnnl::memory memory;
    void* address;
  };
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<Bound> bound_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace caffe::onednn
