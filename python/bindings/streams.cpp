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

// caffe.Stream: `with stream:` sends this thread's work to it.
class PythonStream {
 public:
  explicit PythonStream(Device* device) : device_(device), stream_(device->CreateStream()) {}
  Device* device() const { return device_; }
  void Synchronize() { stream_->Synchronize(); }
  void Enter() { Entered().push_back(std::make_unique<Scope>(stream_, device_)); }
  // `with` statements of one thread end in reverse order, unless a generator is left in one of them.
  void Exit() {
    auto& entered = Entered();
    CAFFE_CHECK(!entered.empty() && entered.back()->stream == stream_,
                "a stream is left that this thread did not enter last");
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
      "A queue of a device: work on it runs beside that of other streams.\n\n"
      "Stream(device=None) is one of a caffe.Device; without it, of the thread's default device.\n"
      "`with stream:` sends what this thread does on that device to the stream, for example\n"
      "net.forward(). A stream that uses a blob waits on the device for what another stream\n"
      "has written to it. On the CPU a stream changes nothing.")
      .def(py::init([](Device* device) {
             return PythonStream(device ? device : caffe::Runtime::Get().default_device());
           }),
           py::arg("device") = nullptr)
      .def_property_readonly("device", &PythonStream::device, py::return_value_policy::reference,
                             "The stream's device, a caffe.Device.")
      .def("synchronize", &PythonStream::Synchronize, py::call_guard<WithoutGil>(),
           "Waits until everything on the stream is done.")
      .def(
          "__enter__",
          [](PythonStream& stream) -> PythonStream& {
            stream.Enter();
            return stream;
          },
          py::return_value_policy::reference)
      .def("__exit__", [](PythonStream& stream, const py::args&) { stream.Exit(); });
}
