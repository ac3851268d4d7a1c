#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/shape.hpp"

namespace caffe {

// An HDF5 file as another program, or a stranger, may make it. Groups are made as needed. The file
// is complete when the object ends.
class ForeignHdf5 {
 public:
  explicit ForeignHdf5(const std::string& path)
      : file_(Check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT))),
        groups_(Check(H5Pcreate(H5P_LINK_CREATE))),
        properties_(Check(H5Pcreate(H5P_DATASET_CREATE))) {
    Check(H5Pset_create_intermediate_group(groups_, 1));
  }
  ~ForeignHdf5() {
    H5Pclose(groups_);
    H5Pclose(properties_);
    H5Fclose(file_);
  }
  ForeignHdf5(const ForeignHdf5&) = delete;
  ForeignHdf5& operator=(const ForeignHdf5&) = delete;

  void Group(const std::string& name) {
    Check(H5Gclose(Check(H5Gcreate2(file_, name.c_str(), groups_, H5P_DEFAULT, H5P_DEFAULT))));
  }
  void Values(const std::string& name, const Shape& shape, const std::vector<float>& values,
              hid_t type = H5T_NATIVE_FLOAT) {
    const hid_t dataset = Make(name, shape, type);
    Check(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    Check(H5Dclose(dataset));
  }
  // A chunk of a dataset that has no values, as it is stored.
  void Chunk(const std::string& name, const std::vector<hsize_t>& at, const void* bytes,
             size_t size) {
    const hid_t dataset = Check(H5Dopen2(file_, name.c_str(), H5P_DEFAULT));
    Check(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at.data(), size, bytes));
    Check(H5Dclose(dataset));
  }
  // Without values.
  void Claim(const std::string& name, const Shape& shape, hid_t type = H5T_NATIVE_FLOAT) {
    Check(H5Dclose(Make(name, shape, type)));
  }
  // Those of the datasets that are made next.
  void SetChunks(const Shape& shape) {
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    Check(H5Pset_chunk(properties_, static_cast<int>(extents.size()), extents.data()));
  }
  hid_t properties() const { return properties_; }
  void ExternalStorage(const std::string& name, const Shape& shape, const std::string& file) {
    Check(H5Pset_external(properties_, file.c_str(), 0, H5F_UNLIMITED));
    Claim(name, shape);
  }
  void Virtual(const std::string& name, const Shape& shape, const std::string& file,
               const std::string& dataset) {
    const hid_t space = Space(shape);
    Check(H5Pset_virtual(properties_, space, file.c_str(), dataset.c_str(), space));
    Check(H5Sclose(space));
    Claim(name, shape);
  }
  void ExternalLink(const std::string& name, const std::string& file, const std::string& object) {
    Check(H5Lcreate_external(file.c_str(), object.c_str(), file_, name.c_str(), groups_,
                             H5P_DEFAULT));
  }
  void SoftLink(const std::string& name, const std::string& target) {
    Check(H5Lcreate_soft(target.c_str(), file_, name.c_str(), groups_, H5P_DEFAULT));
  }
  void HardLink(const std::string& name, const std::string& target) {
    Check(H5Lcreate_hard(file_, target.c_str(), file_, name.c_str(), groups_, H5P_DEFAULT));
  }
  // A link of a class that a program defines.
  void UserLink(const std::string& name) {
    const auto kClass = static_cast<H5L_type_t>(H5L_TYPE_UD_MIN + 100);
    H5L_class_t type{};
    type.version = H5L_LINK_CLASS_T_VERS;
    type.id = kClass;
    type.trav_func = [](const char*, hid_t, const void*, size_t, hid_t, hid_t) {
      return hid_t{-1};
    };
    Check(H5Lregister(&type));
    Check(H5Lcreate_ud(file_, name.c_str(), kClass, "data", 4, groups_, H5P_DEFAULT));
    Check(H5Lunregister(kClass));
  }
  void VariableText(const std::string& name, const std::string& text) {
    const hid_t type = Check(H5Tcopy(H5T_C_S1));
    Check(H5Tset_size(type, H5T_VARIABLE));
    const hid_t dataset = Make(name, {}, type);
    const char* const value = text.c_str();
    Check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
    Check(H5Dclose(dataset));
    Check(H5Tclose(type));
  }

 private:
  template <class Result> static Result Check(Result result) {
    CAFFE_CHECK(result >= 0, "HDF5 refuses what the test does");
    return result;
  }
  static hid_t Space(const Shape& shape) {
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    return Check(extents.empty()
                     ? H5Screate(H5S_SCALAR)
                     : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
  }
  hid_t Make(const std::string& name, const Shape& shape, hid_t type) {
    const hid_t space = Space(shape);
    const hid_t dataset =
        Check(H5Dcreate2(file_, name.c_str(), type, space, groups_, properties_, H5P_DEFAULT));
    Check(H5Sclose(space));
    Check(H5Pclose(properties_));
    properties_ = Check(H5Pcreate(H5P_DATASET_CREATE));
    return dataset;
  }

  hid_t file_, groups_, properties_;
};

}  // namespace caffe
