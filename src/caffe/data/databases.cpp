#include "caffe/data/databases.hpp"

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/data/lmdb/lmdb.hpp"

namespace caffe {
namespace {

void CheckBackend(const std::string& backend, const std::string& path) {
  CAFFE_CHECK(backend != "leveldb", path,
              ": LevelDB is not supported; convert the data to LMDB (the convert tools write it) "
              "and set `backend: LMDB`");
  CAFFE_CHECK(backend == "lmdb", path, ": unknown database backend '", backend,
              "'; the only one is lmdb");
}

}  // namespace

std::unique_ptr<DataSource> OpenDatabase(const std::string& backend, const std::string& path) {
  CheckBackend(backend, path);
  return OpenLmdb(path);
}

std::unique_ptr<DataWriter> CreateDatabase(const std::string& backend, const std::string& path) {
  CheckBackend(backend, path);
  return CreateLmdb(path);
}

void DataWriter::Put(const std::string& key, const Datum& datum) {
  std::string bytes;
  CAFFE_CHECK(datum.SerializeToString(&bytes), "record ", key, " exceeds 2 GiB");
  Put(key, std::string_view(bytes));
}

}  // namespace caffe
