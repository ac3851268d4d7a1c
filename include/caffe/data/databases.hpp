#pragma once

#include <memory>
#include <string>

#include "caffe/data/data_source.hpp"
#include "caffe/data/data_writer.hpp"

namespace caffe {

// The only backend is lmdb. For leveldb the error says what to do instead; every other name is an
// error, and so is lmdb if the library was built without it.

// Opens for reading at the first record. Throws if there is no database, or if it is damaged, cut
// off or empty.
std::unique_ptr<DataSource> OpenDatabase(const std::string& backend, const std::string& path);

// Creates a database. Throws if a file or folder of that name exists.
std::unique_ptr<DataWriter> CreateDatabase(const std::string& backend, const std::string& path);

}  // namespace caffe
