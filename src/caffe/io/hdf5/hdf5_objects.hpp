#pragma once

#include <cstdint>
#include <string>

#include "caffe/core/shape.hpp"
#include "caffe/io/file.hpp"
#include "hdf5_library.hpp"

namespace caffe {

// A file that is open for reading. It may come from a stranger: what it says leads to no other
// file, and to no memory out of proportion to its size.
struct Hdf5Source {
  explicit Hdf5Source(const std::string& path) : input(path) {}
  const std::string& path() const { return input.path(); }
  int64_t bytes() const { return input.size(); }

  InputFile input;
  hid_t file = -1;
};

// Opens the object of a path inside the file, link by link; invalid if there is none. Throws if the
// file is damaged there, or if a link leads to another file. Soft links inside the file are
// followed.
Hdf5Handle OpenHdf5Object(const Hdf5Source& source, const std::string& name);

struct Hdf5Dataset {
  Hdf5Handle dataset, space, type;
  Shape shape;
  int64_t bytes;  // of its elements in the file, before filters
};

// Throws unless the values are in this file, as a type, through filters and in an amount that can
// be read.
Hdf5Dataset OpenHdf5Dataset(const Hdf5Source& source, const std::string& name);

// Throws unless the elements are integers or floating-point numbers.
void CheckHdf5Numbers(const Hdf5Source& source, const std::string& name, hid_t type);

// The text of a dataset with one element of variable length. The text is read from the file itself:
// HDF5 1.10 copies it to memory of the size that another part of the file states.
std::string ReadHdf5VariableText(const Hdf5Source& source, const std::string& name,
                                 const Hdf5Dataset& dataset);

}  // namespace caffe
