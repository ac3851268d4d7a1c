#pragma once

#include <memory>
#include <string>

#include "caffe/data/data_source.hpp"
#include "caffe/data/data_writer.hpp"

namespace caffe {

std::unique_ptr<DataSource> OpenLmdb(const std::string& path);
std::unique_ptr<DataWriter> CreateLmdb(const std::string& path);

}  // namespace caffe
