#include <pybind11/numpy.h>

#include <cstring>

#include "bindings.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/type_functions.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/device/register_type.hpp"
#include "caffe/library/type_function.hpp"

namespace py = pybind11;

namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;

bool IsText(const py::object& object) { return py::isinstance<py::str>(object); }

// The value of a code by a function of Python.
float ToFloat(const py::object& function, uint32_t code) {
  const py::object value = function(code);
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred()) throw py::error_already_set();
  return static_cast<float>(number);
}

// The code of a value by a function of Python.
uint32_t FromFloat(const py::object& function, float value) {
  const int64_t code = ToInteger(function(static_cast<double>(value)), "from_float's code");
  if (code < 0 || code > 0xffff) {
    throw py::value_error(caffe::Concat("from_float gives the code ", code, " for ", value));
  }
  return static_cast<uint32_t>(code);
}

// Whether layers in the type compute in double.
bool SimulatesDouble(const std::string& simulate) {
  if (simulate != "float" && simulate != "double") {
    throw py::value_error("register_type: simulate is 'float' or 'double', not '" + simulate + "'");
  }
  return simulate == "double";
}

void RegisterType(const std::string& name, int bits, const py::object& to_float,
                  const py::object& from_float, const std::string& simulate, bool scaled,
                  bool packed) {
  const caffe::TypeOptions options{scaled, packed, SimulatesDouble(simulate)};
  if (IsText(to_float) && IsText(from_float)) {
    caffe::RegisterType(name, bits, to_float.cast<std::string>(), from_float.cast<std::string>(),
                        options);
    return;
  }
  if (!PyCallable_Check(to_float.ptr()) ||
      !(from_float.is_none() || PyCallable_Check(from_float.ptr()))) {
    throw py::type_error(
        "register_type: to_float and from_float are two texts, or two functions, "
        "where from_float may be None");
  }
  std::function<uint32_t(float)> encode;
  if (!from_float.is_none()) encode = [&](float value) { return FromFloat(from_float, value); };
  caffe::RegisterType(
      name, bits, [&](uint32_t code) { return ToFloat(to_float, code); }, encode, options);
}

void RegisterFunction(const std::string& type, const std::string& layer,
                      const py::object& function) {
  if (IsText(function)) {
    caffe::RegisterTypeFunction(type, layer, function.cast<std::string>());
    return;
  }
  if (!PyCallable_Check(function.ptr())) {
    throw py::type_error("register_function: function is a text in C, or a function of v and code");
  }
  caffe::RegisterTypeFunction(type, layer, [&](float v, uint32_t code) {
    const py::object value = function(static_cast<double>(v), code);
    const double number = PyFloat_AsDouble(value.ptr());
    if (number == -1 && PyErr_Occurred()) throw py::error_already_set();
    return static_cast<float>(number);
  });
}

// The values of an array of codes, as float32.
py::array ValuesOf(const std::string& name, const py::array& codes) {
  const caffe::DataType type = caffe::DataTypeByName(name);
  const auto plain = py::array_t<uint32_t, py::array::c_style | py::array::forcecast>(codes);
  py::array_t<float> values(std::vector<py::ssize_t>(codes.shape(), codes.shape() + codes.ndim()));
  if (caffe::HasFunctions(type)) {
    caffe::FunctionsOf(type).Values(plain.data(), values.mutable_data(), plain.size());
    return values;
  }
  const caffe::ValueTable& table = caffe::TableOf(type);
  for (py::ssize_t i = 0; i < plain.size(); ++i) {
    values.mutable_data()[i] = table.Value(plain.data()[i]);
  }
  return values;
}

// The codes of an array of numbers, as uint8, uint16 or uint32; of a packed type, bytes of two.
py::array CodesOf(const std::string& name, const Floats& values) {
  const caffe::DataType type = caffe::DataTypeByName(name);
  CAFFE_CHECK(type.is_custom(), "data type ", name, " is not a type of a user");
  std::vector<py::ssize_t> shape(values.shape(), values.shape() + values.ndim());
  if (type.is_packed()) shape = {type.StorageBytes(values.size())};
  const char* const words[] = {"uint8", "uint16", "uint32"};
  py::array codes(py::dtype(words[type.bytes() / 2]), shape);
  caffe::ConvertElements(caffe::kFloat, values.data(), type, codes.mutable_data(), values.size());
  return codes;
}

}  // namespace

void BindTypes(py::module_& module) {
  module.def(
      "register_type", &RegisterType, py::arg("name"), py::arg("bits"), py::arg("to_float"),
      py::arg("from_float") = py::none(), py::arg("simulate") = "float", py::arg("scaled") = false,
      py::arg("packed") = false,
      "Adds a type of your own to the types of blobs: 2 to 32 bits, stored in 1, 2 or 4 bytes,\n"
      "arithmetic in float.\n\n"
      "simulate='double': layers in this type compute in double, with parameters in double.\n"
      "scaled=True: each blob has a power of two, by which its values are multiplied. It follows\n"
      "from the blob's range, as of quantized types, so that the net needs a calibrated\n"
      "caffemodel. At most 16 bits; such a net does not train.\n"
      "packed=True: two elements lie in a byte, in memory and in files. At most 4 bits; such a "
      "net\n"
      "does not train.\n\n"
      "Prototxt files then use it by name: data_type_name, compute_data_type_name,\n"
      "bottom_data_type_name, top_data_type_name. fp8_e4m3, fp8_e5m2, posit8 and float10 exist\n"
      "already.\n\n"
      "to_float and from_float are two texts in C, expressions or bodies with `return`: a float "
      "of\n"
      "`code` (u32) and a code of `v` (float), such as 'small_float_value(code, 3, 2, 0)' and\n"
      "'small_float_code(v, 3, 2, 0)'. Or they are functions: to_float(code) -> float and\n"
      "from_float(v) -> int, which are called for every code and about 200,000 floats; then bits "
      "is\n"
      "at most 16. Without from_float, floats are rounded to the nearest value, ties to the even\n"
      "code.\n\n"
      "from_float must be monotonic, give a code for NaN and infinities, too, and give back the\n"
      "value of each code; to_float may be NaN for codes that are not used. The code 0 must have\n"
      "the value that 0 is rounded to: new memory has this code. The same call again has\n"
      "no effect. RuntimeError if the name is taken, if bits is out of range, if a text does not\n"
      "compile or does not return on each path, if a code has more bits, or if a value does not\n"
      "come back. Exceptions of the functions are passed on.");
  module.def(
      "register_function", &RegisterFunction, py::arg("type"), py::arg("layer"),
      py::arg("function"),
      "Gives a type of register_type, of at most 16 bits, a function of its own for an "
      "element-wise\n"
      "layer without constants: AbsVal, BNLL, Sigmoid or TanH.\n\n"
      "`function` is a text in C, a float of `v`, the value of an element, and `code`, its code, "
      "or\n"
      "a function of Python: function(v, code) -> float. It is computed once for each code and\n"
      "rounded to the type. Layers of nets that are made later use it on every device; their\n"
      "gradient is that of the exact function. The same call again has no effect. RuntimeError\n"
      "for other types and layers, and if the type has another function for the layer.");
  module.def("_values_of_codes", &ValuesOf);
  module.def("_codes_of_values", &CodesOf);
  module.def("_is_packed",
             [](const std::string& name) { return caffe::DataTypeByName(name).is_packed(); });
  module.def("_is_scaled",
             [](const std::string& name) { return caffe::DataTypeByName(name).is_scaled(); });
}
