#include "caffe/core/error.hpp"
#include "caffe/data/lmdb/lmdb.hpp"

namespace caffe {

std::unique_ptr<DataSource> OpenLmdb(const std::string& path) {
  CAFFE_THROW("cannot open ", path, ": built without LMDB");
}

std::unique_ptr<DataWriter> CreateLmdb(const std::string& path) {
  CAFFE_THROW("cannot create ", path, ": built without LMDB");
}

}  // namespace caffe
