// Converts Python arguments to C++, with errors that name the argument and its value.
#include "bindings.hpp"
#include "caffe/core/error.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/net/net.hpp"

namespace py = pybind11;

using caffe::Concat;

std::string ToFile(const py::object& object, const std::string& what) {
  std::string path = ToPath(object);
  if (path.empty()) throw py::value_error(what + ": the file name is empty");
  return path;
}

py::object PathObject(const std::string& path) {
  PyObject* const text =
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
  if (!text) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(text);
}

std::vector<std::string> ToFiles(const py::object& object, const std::string& what) {
  if (!py::isinstance<py::list>(object) && !py::isinstance<py::tuple>(object)) {
    return {ToFile(object, what)};
  }
  std::vector<std::string> files;
  for (const py::handle file : object) {
    files.push_back(ToFile(py::reinterpret_borrow<py::object>(file), what));
  }
  if (files.empty()) throw py::value_error(what + ": the list of files is empty");
  return files;
}

std::string NetOrWeights(const py::object& net, const py::object& weights) {
  if (weights.is_none()) return caffe::NetLabel(net.attr("name").cast<std::string>());
  std::string text;
  for (const std::string& file : ToFiles(weights, "the weights")) {
    text += (text.empty() ? "the model of " : ", ") + file;
  }
  return text;
}

std::string Described(const py::handle& value) {
  const std::string type = py::type::handle_of(value).attr("__name__").cast<std::string>();
  if (value.is_none()) return "None";
  return py::repr(value).cast<std::string>() + " (" + type + ")";
}

int64_t ToInteger(const py::handle& value, const std::string& what, const std::string& wanted) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) {
    PyErr_Clear();
    throw py::type_error(Concat(what, " is ", Described(value), ", not ", wanted));
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) {
    throw py::value_error(Concat(what, " is ", py::str(index).cast<std::string>(),
                                 ", which does not fit into 64 bits"));
  }
  return number;
}

std::vector<int64_t> ToShape(const py::args& extents, const std::string& what) {
  py::sequence list = extents;
  if (extents.size() == 1 &&
      (py::isinstance<py::tuple>(extents[0]) || py::isinstance<py::list>(extents[0]))) {
    list = extents[0];
  }
  std::vector<int64_t> shape;
  for (const py::handle extent : list) {
    shape.push_back(ToInteger(extent, Concat(what, ": extent ", shape.size()),
                              "an integer, as in reshape(2, 3) and reshape((2, 3))"));
  }
  return shape;
}

void CheckNames(const caffe::Net& net) {
  const auto check = [&](const std::string& name, const char* what) {
    PyObject* const text =
        PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), nullptr);
    if (!text) PyErr_Clear();
    const py::object owner = py::reinterpret_steal<py::object>(text);
    CAFFE_CHECK(text, caffe::NetLabel(net.name()), ": the name of ", what, ", ", name,
                ", is not UTF-8, which Python cannot hold; rename it");
  };
  check(net.name(), "the net");
  for (const std::string& name : net.layer_names()) check(name, "a layer");
  for (const std::string& name : net.blob_names()) check(name, "a blob");
}

void CheckIndex(int64_t index, int64_t count, const std::string& whose, const std::string& noun) {
  if (index >= 0 && index < count) return;
  throw py::index_error(
      caffe::Printable(Concat(whose, " has ", count, " ", noun, count == 1 ? "" : "s",
                              ", there is no ", noun, " ", index)));
}
