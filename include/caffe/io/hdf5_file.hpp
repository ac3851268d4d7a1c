#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "caffe/core/shape.hpp"

namespace caffe {

class AtomicFile;

// Names are paths inside the file, with / between groups. Errors name the file and the path. The
// HDF5 library is used by one thread at a time, for all files.

// An HDF5 file, open for reading. Throws if it is missing, cut off or in another format, and if
// this library was built without HDF5.
//
// The file may come from a stranger. Only values that are in it are read: an external or a user's
// link, external storage and a virtual dataset are errors. So is a dataset that would take more
// than 16 MiB although the file does not store as much for it (1/1032 of it with a filter, the
// limit of deflate): ShapeOf throws before a caller takes memory. The filters gzip, shuffle and
// fletcher32 are read.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(const std::string& path);
  ~Hdf5Reader();
  Hdf5Reader(const Hdf5Reader&) = delete;
  Hdf5Reader& operator=(const Hdf5Reader&) = delete;

  bool Has(const std::string& name) const;
  bool IsGroup(const std::string& name) const;
  // The same string for all names of one object; damaged files can have several.
  std::string Identity(const std::string& name) const;
  // The children of a group, by name; "/" is the whole file.
  std::vector<std::string> Children(const std::string& group) const;
  Shape ShapeOf(const std::string& dataset) const;
  // Whether the elements are 64-bit floating-point numbers.
  bool IsDouble(const std::string& dataset) const;
  // Reads all elements; the target has ShapeOf elements. Integers and floats of every size are
  // converted.
  void Read(const std::string& dataset, float* target) const;
  void Read(const std::string& dataset, double* target) const;
  int64_t ReadInteger(const std::string& dataset) const;
  // Reads a text of fixed or variable length, at most 1 MiB.
  std::string ReadString(const std::string& dataset) const;
  // Reads unsigned bytes.
  std::string ReadBytes(const std::string& dataset) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes a new HDF5 file, which appears under its name in Commit (io/file.hpp). Creates the groups
// that a name needs.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::string& path);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  void MakeGroup(const std::string& name);
  void Write(const std::string& dataset, const Shape& shape, const float* source);
  void Write(const std::string& dataset, const Shape& shape, const double* source);
  void WriteInteger(const std::string& dataset, int value);
  void WriteString(const std::string& dataset, const std::string& value);
  void WriteBytes(const std::string& dataset, std::string_view bytes);
  // As AtomicFile's; Finish returns it, for CommitTogether.
  AtomicFile* Finish();
  void Commit();

  const std::string& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether a regular file begins with HDF5's signature; false if it cannot be read. Nothing is read
// from a pipe.
bool IsHdf5File(const std::string& path);

}  // namespace caffe
