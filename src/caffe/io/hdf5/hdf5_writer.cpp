#include <cstring>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "hdf5_library.hpp"
#include "hdf5_output.hpp"

namespace caffe {

struct Hdf5Writer::State {
  explicit State(const std::string& path_) : path(path_), target(path_) {}
  ~State() {
    if (file >= 0) H5Fclose(file);
  }
  std::string path;
  AtomicFile target;
  Hdf5Output output{target.descriptor()};
  hid_t file = -1;

  // Throws if a call, or a write to the disk, has failed.
  void Check(bool done, const std::string& what) const {
    if (done && output.error == 0) return;
    const std::string reason =
        output.error == 0 ? Hdf5Reason() : Concat(": ", std::strerror(output.error));
    CAFFE_THROW("cannot write ", path, what, reason);
  }

  void Write(const std::string& name, hid_t space, hid_t type, const void* source) {
    const std::string what = Concat(": dataset '", name, "'");
    const Hdf5Handle parents(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(parents, 1);
    const Hdf5Handle dataset(
        H5Dcreate2(file, name.c_str(), type, space, parents, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
    Check(dataset >= 0, what);
    Check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, source) >= 0, what);
  }
  void WriteArray(const std::string& name, const Shape& shape, hid_t type, const void* source) {
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    const Hdf5Handle space(extents.empty() ? H5Screate(H5S_SCALAR)
                                           : H5Screate_simple(static_cast<int>(extents.size()),
                                                              extents.data(), nullptr),
                           H5Sclose);
    Check(space >= 0, Concat(": dataset '", name, "' of shape ", ShapeString(shape)));
    Write(name, space, type, source);
  }
};

Hdf5Writer::Hdf5Writer(const std::string& path) : state_(std::make_unique<State>(path)) {
  const Hdf5Turn turn;
  const Hdf5Handle access = Hdf5AccessTo(&state_->output);
  state_->file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  state_->Check(state_->file >= 0, "");
}

Hdf5Writer::~Hdf5Writer() {
  const Hdf5Turn turn;
  state_.reset();
}

void Hdf5Writer::MakeGroup(const std::string& name) {
  const Hdf5Turn turn;
  const Hdf5Handle there(H5Gopen2(state_->file, name.c_str(), H5P_DEFAULT), H5Gclose);
  if (there >= 0) return;
  const Hdf5Handle parents(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(parents, 1);
  const Hdf5Handle group(H5Gcreate2(state_->file, name.c_str(), parents, H5P_DEFAULT, H5P_DEFAULT),
                         H5Gclose);
  state_->Check(group >= 0, Concat(": group '", name, "'"));
}

void Hdf5Writer::Write(const std::string& dataset, const Shape& shape, const float* source) {
  const Hdf5Turn turn;
  state_->WriteArray(dataset, shape, H5T_NATIVE_FLOAT, source);
}

void Hdf5Writer::Write(const std::string& dataset, const Shape& shape, const double* source) {
  const Hdf5Turn turn;
  state_->WriteArray(dataset, shape, H5T_NATIVE_DOUBLE, source);
}

void Hdf5Writer::WriteInteger(const std::string& dataset, int value) {
  const Hdf5Turn turn;
  state_->WriteArray(dataset, {1}, H5T_NATIVE_INT, &value);
}

void Hdf5Writer::WriteString(const std::string& dataset, const std::string& value) {
  const Hdf5Turn turn;
  const Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, value.size() + 1);
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  state_->Write(dataset, space, type, value.c_str());
}

void Hdf5Writer::WriteBytes(const std::string& dataset, std::string_view bytes) {
  const Hdf5Turn turn;
  state_->WriteArray(dataset, {static_cast<int64_t>(bytes.size())}, H5T_NATIVE_UINT8, bytes.data());
}

AtomicFile* Hdf5Writer::Finish() {
  const Hdf5Turn turn;
  if (state_->file >= 0) {
    const bool closed = H5Fclose(std::exchange(state_->file, -1)) >= 0;
    state_->Check(closed, "");
  }
  state_->target.Finish();
  return &state_->target;
}

void Hdf5Writer::Commit() { Finish()->Commit(); }

const std::string& Hdf5Writer::path() const { return state_->path; }

}  // namespace caffe
