#include <memory>
#include <thread>
#include <vector>

#include "bindings.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "gil.hpp"

namespace py = pybind11;

namespace {

using caffe::Device;

// caffe.Stream: within `with stream:` this thread enqueues its work on the stream.
class PythonStream {
 public:
  explicit PythonStream(Device* device) : device_(device), stream_(device->CreateStream()) {}
  Device* device() const { return device_; }
  void Synchronize() { stream_->Synchronize(); }
  void Enter() { Entered().push_back(std::make_unique<Scope>(stream_, device_)); }
  // `with` statements of one thread end in reverse order, except in generators that stop within
  // one.
  void Exit() {
    auto& entered = Entered();
    CAFFE_CHECK(!entered.empty() && entered.back()->stream == stream_,
                "cannot leave a stream that this thread did not enter last");
    entered.pop_back();
  }

 private:
  struct Scope {
    Scope(std::shared_ptr<caffe::Stream> entered, Device* device)
        : stream(std::move(entered)), scope(device, stream.get()) {}
    const std::shared_ptr<caffe::Stream> stream;
    const caffe::StreamScope scope;
  };
  static std::vector<std::unique_ptr<Scope>>& Entered() {
    thread_local std::vector<std::unique_ptr<Scope>> entered;
    return entered;
  }

  Device* const device_;
  const std::shared_ptr<caffe::Stream> stream_;
};

}  // namespace

void BindStreams(py::module_& module) {
  py::class_<PythonStream>(
      module, "Stream",
      "A queue of a device. Its work may run at the same time as the work of other streams.\n\n"
      "Stream(device=None) creates a stream of a caffe.Device; None is the thread's default\n"
      "device. Within `with stream:` this thread enqueues its work for that device on the\n"
      "stream, for example net.forward(). Before a stream uses a blob, the device waits until\n"
      "other streams have written to it. On the CPU a stream has no effect.")
      .def(py::init([](Device* device) {
             return PythonStream(device ? device : caffe::Runtime::Get().default_device());
           }),
           py::arg("device") = nullptr)
      .def_property_readonly("device", &PythonStream::device, py::return_value_policy::reference,
                             "The stream's device, a caffe.Device.")
      .def("synchronize", &PythonStream::Synchronize, py::call_guard<WithoutGil>(),
           "Waits until all work on the stream is done.")
      .def(
          "__enter__",
          [](PythonStream& stream) -> PythonStream& {
            stream.Enter();
            return stream;
          },
          py::return_value_policy::reference)
      .def("__exit__", [](PythonStream& stream, const py::args&) { stream.Exit(); });
}
