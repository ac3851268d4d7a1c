#include <new>
#include <stdexcept>

#include "bindings.hpp"
#include "caffe/core/out_of_memory.hpp"

namespace py = pybind11;

namespace {

PyObject* out_of_memory = nullptr;  // the class, which lives as long as the module

}  // namespace

// Other errors of the library are caffe::Error, a std::runtime_error, and so RuntimeError.
void BindErrors(py::module_& module) {
  module.def("_printable", [](const std::string& text) { return caffe::Printable(text); });
  const py::tuple bases =
      py::make_tuple(py::handle(PyExc_RuntimeError), py::handle(PyExc_MemoryError));
  out_of_memory = PyErr_NewExceptionWithDoc("caffe.OutOfMemory",
                                            "The host or a device has not enough memory.\n\n"
                                            "The message names the file, the layer or the blob "
                                            "that needs it. It is a MemoryError and, as\n"
                                            "other errors of the library, a RuntimeError.",
                                            bases.ptr(), nullptr);
  if (!out_of_memory) throw py::error_already_set();
  module.attr("OutOfMemory") = py::handle(out_of_memory);
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      // Memory for values that pass between Python and C++; the library names what it needs.
      caffe::NamingMemory("values of Python", [&] { std::rethrow_exception(error); });
    } catch (const caffe::OutOfMemory& error) {
      PyErr_SetString(out_of_memory, error.what());
    }
  });
}
