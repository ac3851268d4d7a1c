#include "caffe/io/hdf5_file.hpp"

#include <hdf5.h>

#include <filesystem>
#include <mutex>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/io/file.hpp"

namespace caffe {
namespace {

// Locks the library, since most builds of HDF5 are not thread-safe, and disables its error output.
class Turn {
 public:
  Turn() : lock_(Mutex()) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

 private:
  static std::recursive_mutex& Mutex() {
    static std::recursive_mutex mutex;
    return mutex;
  }
  std::lock_guard<std::recursive_mutex> lock_;
};

// HDF5's description of the last failure, from the innermost call.
std::string Reason() {
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* error, void* text) {
        if (depth == 0 && error->desc) *static_cast<std::string*>(text) = error->desc;
        return herr_t{0};
      },
      &reason);
  H5Eclear2(H5E_DEFAULT);
  // "file write failed: time = …, error message = 'No space left on device', …", in several lines.
  const std::string quoted = "error message = '";
  const size_t begin = reason.find(quoted);
  if (begin != std::string::npos) {
    reason = reason.substr(begin + quoted.size());
    reason = reason.substr(0, reason.find('\''));
  }
  return reason.empty() ? "" : " (" + reason + ")";
}

// Owns an identifier and closes it.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

struct Dataset {
  Handle dataset, space, type;
};

Dataset OpenDataset(hid_t file, const std::string& path, const std::string& name) {
  Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  CAFFE_CHECK(dataset >= 0, path, ": no dataset '", name, "'", Reason());
  Handle space(H5Dget_space(dataset), H5Sclose);
  Handle type(H5Dget_type(dataset), H5Tclose);
  CAFFE_CHECK(space >= 0 && type >= 0, path, ": dataset '", name, "' is damaged", Reason());
  return {std::move(dataset), std::move(space), std::move(type)};
}

Shape SpaceShape(hid_t space, const std::string& path, const std::string& name) {
  const int axes = H5Sget_simple_extent_ndims(space);
  CAFFE_CHECK(axes >= 0, path, ": dataset '", name, "' has no shape", Reason());
  std::vector<hsize_t> extents(axes);
  if (axes > 0) H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  Shape shape(extents.begin(), extents.end());
  try {
    ShapeCount(shape);
  } catch (const Error& error) {
    CAFFE_THROW(path, ": dataset '", name, "': ", error.what());
  }
  return shape;
}

void ReadNumbers(hid_t file, const std::string& path, const std::string& name, hid_t as,
                 void* target) {
  const Dataset dataset = OpenDataset(file, path, name);
  const H5T_class_t kind = H5Tget_class(dataset.type);
  CAFFE_CHECK(kind == H5T_FLOAT || kind == H5T_INTEGER, path, ": dataset '", name,
              "' holds neither integers nor floating-point numbers");
  CAFFE_CHECK(H5Dread(dataset.dataset, as, H5S_ALL, H5S_ALL, H5P_DEFAULT, target) >= 0, path,
              ": cannot read dataset '", name, "'", Reason());
}

}  // namespace

Hdf5Reader::Hdf5Reader(const std::string& path) : path_(path) {
  const Turn turn;
  std::error_code error;
  CAFFE_CHECK(std::filesystem::exists(path, error), "File not found: ", path);
  CAFFE_CHECK(!std::filesystem::is_directory(path, error), path, " is a folder, not a file");
  CAFFE_CHECK(IsHdf5File(path), path, " is not an HDF5 file");
  file_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  CAFFE_CHECK(file_ >= 0, "cannot open ", path, Reason());
}

Hdf5Reader::~Hdf5Reader() {
  const Turn turn;
  if (file_ >= 0) H5Fclose(file_);
}

bool Hdf5Reader::Has(const std::string& name) const {
  const Turn turn;
  // H5Lexists must be called for every prefix of the path.
  for (size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string part = name.substr(0, end);
    if (part != "/" && H5Lexists(file_, part.c_str(), H5P_DEFAULT) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

bool Hdf5Reader::IsGroup(const std::string& name) const {
  const Turn turn;
  const Handle object(H5Oopen(file_, name.c_str(), H5P_DEFAULT), H5Oclose);
  return object >= 0 && H5Iget_type(object) == H5I_GROUP;
}

std::string Hdf5Reader::Identity(const std::string& name) const {
  const Turn turn;
  const Handle object(H5Oopen(file_, name.c_str(), H5P_DEFAULT), H5Oclose);
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info{};
  const bool known = object >= 0 && H5Oget_info3(object, &info, H5O_INFO_BASIC) >= 0;
  const void* token = &info.token;
  constexpr size_t kBytes = sizeof(info.token);
#else
  H5O_info_t info{};
  const bool known = object >= 0 && H5Oget_info(object, &info) >= 0;
  const void* token = &info.addr;
  constexpr size_t kBytes = sizeof(info.addr);
#endif
  CAFFE_CHECK(known, path_, ": no object '", name, "'", Reason());
  return std::to_string(info.fileno) + ":" + std::string(static_cast<const char*>(token), kBytes);
}

std::vector<std::string> Hdf5Reader::Children(const std::string& group) const {
  const Turn turn;
  std::vector<std::string> names;
  const Handle handle(H5Gopen2(file_, group.c_str(), H5P_DEFAULT), H5Gclose);
  CAFFE_CHECK(handle >= 0, path_, ": no group '", group, "'", Reason());
  H5G_info_t info{};
  CAFFE_CHECK(H5Gget_info(handle, &info) >= 0, path_, ": cannot list group '", group, "'",
              Reason());
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto read = [&](char* name, size_t size) {
      const ssize_t length =
          H5Lget_name_by_idx(handle, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, size, H5P_DEFAULT);
      CAFFE_CHECK(length >= 0, path_, ": cannot list group '", group, "'", Reason());
      return static_cast<size_t>(length);
    };
    std::string name(read(nullptr, 0), '\0');
    read(name.data(), name.size() + 1);
    names.push_back(name);
  }
  return names;
}

Shape Hdf5Reader::ShapeOf(const std::string& dataset) const {
  const Turn turn;
  return SpaceShape(OpenDataset(file_, path_, dataset).space, path_, dataset);
}

bool Hdf5Reader::IsDouble(const std::string& dataset) const {
  const Turn turn;
  const Dataset opened = OpenDataset(file_, path_, dataset);
  return H5Tget_class(opened.type) == H5T_FLOAT && H5Tget_size(opened.type) == sizeof(double);
}

void Hdf5Reader::Read(const std::string& dataset, float* target) const {
  const Turn turn;
  ReadNumbers(file_, path_, dataset, H5T_NATIVE_FLOAT, target);
}

void Hdf5Reader::Read(const std::string& dataset, double* target) const {
  const Turn turn;
  ReadNumbers(file_, path_, dataset, H5T_NATIVE_DOUBLE, target);
}

int64_t Hdf5Reader::ReadInteger(const std::string& dataset) const {
  const Turn turn;
  CAFFE_CHECK(ShapeCount(ShapeOf(dataset)) == 1, path_, ": dataset '", dataset,
              "' is not a single integer");
  int64_t value = 0;
  ReadNumbers(file_, path_, dataset, H5T_NATIVE_INT64, &value);
  return value;
}

std::string Hdf5Reader::ReadString(const std::string& dataset) const {
  const Turn turn;
  const Dataset opened = OpenDataset(file_, path_, dataset);
  CAFFE_CHECK(H5Tget_class(opened.type) == H5T_STRING &&
                  ShapeCount(SpaceShape(opened.space, path_, dataset)) == 1,
              path_, ": dataset '", dataset, "' is not text");
  std::string text;
  herr_t done = -1;
  if (H5Tis_variable_str(opened.type) > 0) {
    const Handle type(H5Tcopy(opened.type), H5Tclose);
    char* value = nullptr;
    done = H5Dread(opened.dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
    if (done >= 0 && value) text = value;
    H5free_memory(value);
  } else {
    text.resize(H5Tget_size(opened.type));
    done = H5Dread(opened.dataset, opened.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data());
    text.resize(text.find('\0') == std::string::npos ? text.size() : text.find('\0'));
  }
  CAFFE_CHECK(done >= 0, path_, ": cannot read dataset '", dataset, "'", Reason());
  return text;
}

std::string Hdf5Reader::ReadBytes(const std::string& dataset) const {
  const Turn turn;
  std::string bytes(ShapeCount(ShapeOf(dataset)), '\0');
  ReadNumbers(file_, path_, dataset, H5T_NATIVE_UINT8, bytes.data());
  return bytes;
}

struct Hdf5Writer::State {
  explicit State(const std::string& path_) : path(path_), target(path_) {}
  std::string path;
  AtomicFile target;
  hid_t file = -1;

  void Write(const std::string& name, hid_t space, hid_t type, const void* source) {
    const Handle parents(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(parents, 1);
    const Handle dataset(
        H5Dcreate2(file, name.c_str(), type, space, parents, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
    CAFFE_CHECK(dataset >= 0, "cannot write ", path, ": dataset '", name, "'", Reason());
    CAFFE_CHECK(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, source) >= 0,
                "cannot write ", path, ": dataset '", name, "'", Reason());
  }
  void WriteArray(const std::string& name, const Shape& shape, hid_t type, const void* source) {
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    const Handle space(extents.empty() ? H5Screate(H5S_SCALAR)
                                       : H5Screate_simple(static_cast<int>(extents.size()),
                                                          extents.data(), nullptr),
                       H5Sclose);
    CAFFE_CHECK(space >= 0, "cannot write ", path, ": dataset '", name, "' of shape ",
                ShapeString(shape), Reason());
    Write(name, space, type, source);
  }
};

Hdf5Writer::Hdf5Writer(const std::string& path) : state_(std::make_unique<State>(path)) {
  const Turn turn;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access, false, true);  // AtomicFile has locked the file
#endif
  state_->file =
      H5Fcreate(state_->target.temporary_path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  CAFFE_CHECK(state_->file >= 0, "cannot write ", path, Reason());
}

Hdf5Writer::~Hdf5Writer() {
  const Turn turn;
  if (state_->file >= 0) H5Fclose(state_->file);
}

void Hdf5Writer::MakeGroup(const std::string& name) {
  const Turn turn;
  const Handle there(H5Gopen2(state_->file, name.c_str(), H5P_DEFAULT), H5Gclose);
  if (there >= 0) return;
  const Handle parents(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(parents, 1);
  const Handle group(H5Gcreate2(state_->file, name.c_str(), parents, H5P_DEFAULT, H5P_DEFAULT),
                     H5Gclose);
  CAFFE_CHECK(group >= 0, "cannot write ", state_->path, ": group '", name, "'", Reason());
}

void Hdf5Writer::Write(const std::string& dataset, const Shape& shape, const float* source) {
  const Turn turn;
  state_->WriteArray(dataset, shape, H5T_NATIVE_FLOAT, source);
}

void Hdf5Writer::Write(const std::string& dataset, const Shape& shape, const double* source) {
  const Turn turn;
  state_->WriteArray(dataset, shape, H5T_NATIVE_DOUBLE, source);
}

void Hdf5Writer::WriteInteger(const std::string& dataset, int value) {
  const Turn turn;
  state_->WriteArray(dataset, {1}, H5T_NATIVE_INT, &value);
}

void Hdf5Writer::WriteString(const std::string& dataset, const std::string& value) {
  const Turn turn;
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, value.size() + 1);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  state_->Write(dataset, space, type, value.c_str());
}

void Hdf5Writer::WriteBytes(const std::string& dataset, std::string_view bytes) {
  const Turn turn;
  state_->WriteArray(dataset, {static_cast<int64_t>(bytes.size())}, H5T_NATIVE_UINT8, bytes.data());
}

void Hdf5Writer::Finish() {
  const Turn turn;
  const hid_t file = std::exchange(state_->file, -1);
  if (file >= 0) {
    const bool flushed = H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0;
    const std::string reason = flushed ? "" : Reason();
    CAFFE_CHECK(H5Fclose(file) >= 0 && flushed, "cannot write ", state_->path, reason);
  }
  state_->target.Finish();
}

void Hdf5Writer::Commit() {
  Finish();
  state_->target.Commit();
}

const std::string& Hdf5Writer::path() const { return state_->path; }

}  // namespace caffe
