#include "bindings.hpp"
#include "caffe.pb.h"

namespace py = pybind11;

void BindEnums(py::module_& module) {
  py::enum_<caffe::DataTypeProto>(module, "data_type", py::arithmetic(),
                                  "Element types, with the numbers of caffe.proto.")
      .value("CAFFE_FLOAT", caffe::CAFFE_FLOAT)
      .value("CAFFE_HALF", caffe::CAFFE_HALF)
      .value("CAFFE_DOUBLE", caffe::CAFFE_DOUBLE)
      .value("CAFFE_BFLOAT16", caffe::CAFFE_BFLOAT16)
      .value("CAFFE_INT8_QUANTIZED", caffe::CAFFE_INT8_QUANTIZED)
      .value("CAFFE_INT16_QUANTIZED", caffe::CAFFE_INT16_QUANTIZED)
      .value("CAFFE_INT32_QUANTIZED", caffe::CAFFE_INT32_QUANTIZED)
      .value("CAFFE_INT64_QUANTIZED", caffe::CAFFE_INT64_QUANTIZED)
      .value("CAFFE_CUSTOM", caffe::CAFFE_CUSTOM);
  py::enum_<caffe::QuantizerMode>(module, "quantizer_mode", py::arithmetic(),
                                  "PASSIVE uses ranges, OBSERVE collects them in every forward, "
                                  "PSEUDO quantizes and dequantizes in float. DYNAMIC: layers "
                                  "quantize their bottom by the range of its values in each "
                                  "forward.")
      .value("CAFFE_QUANT_PASSIVE", caffe::CAFFE_QUANT_PASSIVE)
      .value("CAFFE_QUANT_OBSERVE", caffe::CAFFE_QUANT_OBSERVE)
      .value("CAFFE_QUANT_PSEUDO", caffe::CAFFE_QUANT_PSEUDO)
      .value("CAFFE_QUANT_DYNAMIC", caffe::CAFFE_QUANT_DYNAMIC);
  py::enum_<caffe::SolverParameter_SnapshotFormat>(module, "snapshot_format", py::arithmetic())
      .value("HDF5", caffe::SolverParameter_SnapshotFormat_HDF5)
      .value("BINARYPROTO", caffe::SolverParameter_SnapshotFormat_BINARYPROTO);
}
