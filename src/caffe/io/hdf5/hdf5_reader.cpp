#include "caffe/core/error.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "hdf5_chunks.hpp"
#include "hdf5_input.hpp"
#include "hdf5_library.hpp"
#include "hdf5_objects.hpp"

namespace caffe {

struct Hdf5Reader::State {
  explicit State(const std::string& path) : source(path) {}

  Hdf5Source source;
  double taken = 0;  // bytes of all datasets that were read

  // Several names of a damaged file may lead to one dataset.
  void Take(const std::string& name, int64_t bytes) {
    constexpr double kMostRatio = 1032, kSlack = 1 << 26;
    taken += static_cast<double>(bytes);
    CAFFE_CHECK(taken <= kMostRatio * static_cast<double>(source.bytes()) + kSlack, source.path(),
                ": with dataset '", name, "', ", taken, " bytes were read from a file of ",
                source.bytes(), "; it is damaged");
  }
  void CheckChunks(const std::string& name, const Hdf5Dataset& opened) const {
    const Hdf5Handle properties(H5Dget_create_plist(opened.dataset), H5Pclose);
    if (H5Pget_layout(properties) != H5D_CHUNKED || opened.bytes == 0 ||
        H5Dget_storage_size(opened.dataset) == 0) {
      return;
    }
    CheckHdf5Chunks(source, name, opened.dataset, properties, opened.shape,
                    H5Tget_size(opened.type));
  }
  void Read(const std::string& name, hid_t as, void* target) {
    const Hdf5Dataset opened = OpenHdf5Dataset(source, name);
    CheckHdf5Numbers(source, name, opened.type);
    Take(name, opened.bytes);
    CheckChunks(name, opened);
    CAFFE_CHECK(H5Dread(opened.dataset, as, H5S_ALL, H5S_ALL, H5P_DEFAULT, target) >= 0,
                source.path(), ": cannot read dataset '", name, "'", Hdf5Reason());
  }
};

Hdf5Reader::Hdf5Reader(const std::string& path) : state_(std::make_unique<State>(path)) {
  const Hdf5Turn turn;
  Hdf5Source& source = state_->source;
  CAFFE_CHECK(!source.input.is_pipe(), path,
              " is a pipe, but HDF5 is read from files only; write its content to a file");
  CAFFE_CHECK(IsHdf5File(path), path, " is not an HDF5 file");
  const Hdf5Handle access = Hdf5AccessTo(&source.input);  // closing it clears the reason
  source.file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  CAFFE_CHECK(source.file >= 0, "cannot open ", path, Hdf5Reason());
}

Hdf5Reader::~Hdf5Reader() {
  const Hdf5Turn turn;
  if (state_->source.file >= 0) H5Fclose(state_->source.file);
}

bool Hdf5Reader::Has(const std::string& name) const {
  const Hdf5Turn turn;
  return OpenHdf5Object(state_->source, name) >= 0;
}

bool Hdf5Reader::IsGroup(const std::string& name) const {
  const Hdf5Turn turn;
  const Hdf5Handle object = OpenHdf5Object(state_->source, name);
  return object >= 0 && H5Iget_type(object) == H5I_GROUP;
}

std::string Hdf5Reader::Identity(const std::string& name) const {
  const Hdf5Turn turn;
  const Hdf5Handle object = OpenHdf5Object(state_->source, name);
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
  CAFFE_CHECK(known, state_->source.path(), ": no object '", name, "'", Hdf5Reason());
  return std::to_string(info.fileno) + ":" + std::string(static_cast<const char*>(token), kBytes);
}

std::vector<std::string> Hdf5Reader::Children(const std::string& group) const {
  const Hdf5Turn turn;
  const std::string& path = state_->source.path();
  const Hdf5Handle handle = OpenHdf5Object(state_->source, group);
  CAFFE_CHECK(handle >= 0 && H5Iget_type(handle) == H5I_GROUP, path, ": no group '", group, "'",
              Hdf5Reason());
  H5G_info_t info{};
  CAFFE_CHECK(H5Gget_info(handle, &info) >= 0, path, ": cannot list group '", group, "'",
              Hdf5Reason());
  // HDF5 takes memory for as many links as the file states.
  constexpr int64_t kLeast = 8;  // bytes of a link
  CAFFE_CHECK(info.nlinks <= static_cast<uint64_t>(state_->source.bytes() / kLeast), path,
              ": group '", group, "' states ", info.nlinks,
              " members, more than the file can hold; it is damaged");
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* all) -> herr_t {
    try {
      static_cast<std::vector<std::string>*>(all)->emplace_back(name);
      return 0;
    } catch (const std::exception&) {
      return -1;
    }
  };
  CAFFE_CHECK(H5Literate(handle, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names) >= 0, path,
              ": cannot list group '", group, "'", Hdf5Reason());
  return names;
}

Shape Hdf5Reader::ShapeOf(const std::string& dataset) const {
  const Hdf5Turn turn;
  return OpenHdf5Dataset(state_->source, dataset).shape;
}

bool Hdf5Reader::IsDouble(const std::string& dataset) const {
  const Hdf5Turn turn;
  const Hdf5Dataset opened = OpenHdf5Dataset(state_->source, dataset);
  return H5Tget_class(opened.type) == H5T_FLOAT && H5Tget_size(opened.type) == sizeof(double);
}

void Hdf5Reader::Read(const std::string& dataset, float* target) const {
  const Hdf5Turn turn;
  state_->Read(dataset, H5T_NATIVE_FLOAT, target);
}

void Hdf5Reader::Read(const std::string& dataset, double* target) const {
  const Hdf5Turn turn;
  state_->Read(dataset, H5T_NATIVE_DOUBLE, target);
}

int64_t Hdf5Reader::ReadInteger(const std::string& dataset) const {
  const Hdf5Turn turn;
  CAFFE_CHECK(ShapeCount(ShapeOf(dataset)) == 1, state_->source.path(), ": dataset '", dataset,
              "' is not a single integer");
  int64_t value = 0;
  state_->Read(dataset, H5T_NATIVE_INT64, &value);
  return value;
}

std::string Hdf5Reader::ReadString(const std::string& dataset) const {
  const Hdf5Turn turn;
  const std::string& path = state_->source.path();
  const Hdf5Dataset opened = OpenHdf5Dataset(state_->source, dataset);
  CAFFE_CHECK(H5Tget_class(opened.type) == H5T_STRING && ShapeCount(opened.shape) == 1, path,
              ": dataset '", dataset, "' is not text");
  if (H5Tis_variable_str(opened.type) > 0) {
    return ReadHdf5VariableText(state_->source, dataset, opened);
  }
  state_->CheckChunks(dataset, opened);
  std::string text(H5Tget_size(opened.type), '\0');
  CAFFE_CHECK(H5Dread(opened.dataset, opened.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) >= 0,
              path, ": cannot read dataset '", dataset, "'", Hdf5Reason());
  return text.substr(0, text.find('\0'));
}

std::string Hdf5Reader::ReadBytes(const std::string& dataset) const {
  const Hdf5Turn turn;
  std::string bytes(ShapeCount(ShapeOf(dataset)), '\0');
  state_->Read(dataset, H5T_NATIVE_UINT8, bytes.data());
  return bytes;
}

}  // namespace caffe
