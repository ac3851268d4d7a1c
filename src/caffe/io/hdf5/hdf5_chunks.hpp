#pragma once

#include <string>

#include "hdf5_objects.hpp"

namespace caffe {

// Throws unless every chunk of a chunked dataset unpacks to the size that the layout says: HDF5
// 1.10 copies that many bytes, also out of a shorter buffer, so that values of other memory would
// become values of the dataset.
void CheckHdf5Chunks(const Hdf5Source& source, const std::string& name, hid_t dataset,
                     hid_t properties, const Shape& shape, size_t element);

}  // namespace caffe
