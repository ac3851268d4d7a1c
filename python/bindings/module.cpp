#include "bindings.hpp"
#include "gil.hpp"

namespace py = pybind11;

PYBIND11_MODULE(_caffe, module) {
  module.doc() = "The compiled part of the package caffe.";
  module.attr("__version__") = CAFFE_VERSION;
  module.attr("TRAIN") = 0;
  module.attr("TEST") = 1;
  BindErrors(module);
  BindEnums(module);
  BindDevices(module);
  BindBlob(module);
  BindKernel(module);
  BindLayer(module);
  BindPythonLayer(module);
  BindParameters(module);
  BindNet(module);
  BindQuantize(module);
  BindSolver(module);
  BindStreams(module);
  BindTimer(module);
  BindTransform(module);
  BindTypes(module);
  WaitAtExit();
}
