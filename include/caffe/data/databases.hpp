#pragma once

#include <memory>
#include <string>

#include "caffe/data/data_source.hpp"
#include "caffe/data/data_writer.hpp"

namespace caffe {

// Backends: lmdb. leveldb is refused with what to do instead, any other name is an error, and so is
// lmdb if the library was built without it.

// Opens for reading, the cursor at the first record. Throws if there is no database, or if it is
// damaged, cut off or empty.
std::unique_ptr<DataSource> OpenDatabase(const std::string& backend, const std::string& path);

// A new database. Throws if there is a file or folder of that name.
std::unique_ptr<DataWriter> CreateDatabase(const std::string& backend, const std::string& path);

}  // namespace caffe
