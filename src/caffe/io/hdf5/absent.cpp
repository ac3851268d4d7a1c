#include "caffe/core/error.hpp"
#include "caffe/io/hdf5_file.hpp"

namespace caffe {

struct Hdf5Reader::State {};
struct Hdf5Writer::State {};

Hdf5Reader::Hdf5Reader(const std::string& path) {
  CAFFE_THROW("cannot read ", path, ": built without HDF5");
}
Hdf5Reader::~Hdf5Reader() = default;
bool Hdf5Reader::Has(const std::string&) const { return false; }
bool Hdf5Reader::IsGroup(const std::string&) const { return false; }
std::string Hdf5Reader::Identity(const std::string&) const { return ""; }
std::vector<std::string> Hdf5Reader::Children(const std::string&) const { return {}; }
Shape Hdf5Reader::ShapeOf(const std::string&) const { return {}; }
bool Hdf5Reader::IsDouble(const std::string&) const { return false; }
void Hdf5Reader::Read(const std::string&, float*) const {}
void Hdf5Reader::Read(const std::string&, double*) const {}
int64_t Hdf5Reader::ReadInteger(const std::string&) const { return 0; }
std::string Hdf5Reader::ReadString(const std::string&) const { return ""; }
std::string Hdf5Reader::ReadBytes(const std::string&) const { return ""; }

Hdf5Writer::Hdf5Writer(const std::string& path) {
  CAFFE_THROW("cannot write ", path, ": built without HDF5");
}
Hdf5Writer::~Hdf5Writer() = default;
void Hdf5Writer::MakeGroup(const std::string&) {}
void Hdf5Writer::Write(const std::string&, const Shape&, const float*) {}
void Hdf5Writer::Write(const std::string&, const Shape&, const double*) {}
void Hdf5Writer::WriteInteger(const std::string&, int) {}
void Hdf5Writer::WriteString(const std::string&, const std::string&) {}
void Hdf5Writer::WriteBytes(const std::string&, std::string_view) {}
AtomicFile* Hdf5Writer::Finish() { return nullptr; }
void Hdf5Writer::Commit() {}
const std::string& Hdf5Writer::path() const {
  static const std::string none;
  return none;
}

}  // namespace caffe
